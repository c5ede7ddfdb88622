"""`evoflash record` writes what a search found out as a file for `evoflash replay`.

Other tuners read it too. app/recordings.py reads the store.
"""

from pathlib import Path
from typing import Annotated

import typer

from evoflash.cli.shared_options import Db, Force, Quiet, RunOption
from evoflash.notices import say
from evoflash.written_files import wrote


def record(
    file: Annotated[Path, typer.Argument(help="Where to write; .gz compresses.")],
    *,
    problem: Annotated[
        str | None, typer.Option("--problem", help="As it was searched; with --run the run's own.")
    ] = None,
    gpu: Annotated[
        str | None, typer.Option("--gpu", help="As it was searched; with --run the run's own.")
    ] = None,
    run: RunOption = None,
    family: Annotated[
        str | None, typer.Option(help="Kernel family; needed where the database has several.")
    ] = None,
    estimated: Annotated[
        bool, typer.Option("--estimated", help="Write a model's estimates, marked so, not measurements.")
    ] = False,
    force: Force = False,
    db: Db,
    quiet: Quiet = False,
) -> None:
    """Write a search's outcomes as a recorded space.

    Every outcome of a problem on a GPU, or of one run, as a Kernel Tuner cache, for `evoflash replay` and
    others.

    Example: evoflash record mission-h200.json.gz --problem mission --gpu h200
    """
    from evoflash.app.recordings import record as write_recording

    written = write_recording(db, file, problem=problem, gpu=gpu, run=run, family=family, estimated=estimated)
    say(f"{wrote()} {file}: {len(written.space.genomes)} configurations of {written.space.family}.")
