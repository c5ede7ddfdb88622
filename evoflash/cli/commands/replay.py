"""`evoflash replay` compares search strategies on a recorded space. app/recordings.py does the work."""

from pathlib import Path
from typing import Annotated

import typer

from evoflash.cli.shared_options import Json, Quiet, Seed, show
from evoflash.errors import UsageError
from evoflash.settings import MOST


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
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print the curves, best over optimum after each evaluation, as CSV.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare search strategies on a recorded space.

    Needs no GPU and stores nothing.

    Example: evoflash replay convolution.json.gz --strategy evolution,tpe --budget 200 --repeats 20
    """
    from evoflash.app.recordings import compare_strategies
    from evoflash.views.recordings import curves_as_csv, print_comparison

    if as_csv and as_json:
        raise UsageError("--json has the curves too: give it or --csv.")
    comparison = compare_strategies(file, strategy, budget=budget, repeats=repeats, seed=seed, ahead=ahead)
    if as_csv:
        typer.echo(curves_as_csv(comparison), nl=False)
        return
    show(comparison, print_comparison, as_json=as_json, pipe_columns=120)
