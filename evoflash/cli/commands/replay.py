"""`evoflash replay` compares search strategies on a recorded space. replay/ searches and compares."""

from pathlib import Path
from typing import Annotated

import typer

from evoflash.cli.options import Json, Quiet, Seed
from evoflash.notices import working
from evoflash.settings import MOST
from evoflash.views.terminal import stdout_console


def replay(
    file: Annotated[Path, typer.Argument(help="A Kernel Tuner cache or T4 file, plain or gzip.")],
    *,
    strategy: Annotated[str, typer.Option(help="Names with commas between, or all.")] = "all",
    budget: Annotated[int, typer.Option(min=1, max=MOST, help="Evaluations of each run.")] = 200,
    repeats: Annotated[
        int, typer.Option(min=1, max=MOST, help="Runs of each strategy, with seeds of their own.")
    ] = 20,
    ahead: Annotated[
        int, typer.Option(min=1, max=MOST, help="Proposals in flight, as where evaluation is slow.")
    ] = 1,
    seed: Seed = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare search strategies on a recorded space.

    Needs no GPU and stores nothing.

    Example: evoflash replay convolution.json.gz --strategy evolution,tpe --budget 200 --repeats 20
    """
    from evoflash.replay.comparison import compare, parse_strategies
    from evoflash.replay.kernel_tuner import read_recording
    from evoflash.views import replay as report

    names = parse_strategies(strategy)
    recording = read_recording(file)
    size = f"{len(names)} strategies, {repeats} runs of {budget} evaluations each"
    with working(f"replaying {file.name}: {size}"):
        comparison = compare(recording, names, budget=budget, repeats=repeats, seed=seed, ahead=ahead)
    if as_json:
        typer.echo(report.as_json(comparison))
    else:
        report.print_table(comparison, stdout_console(pipe_columns=120))
