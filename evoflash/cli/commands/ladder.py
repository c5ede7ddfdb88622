"""`evoflash ladder` shows eight kernels, from scalar code to tensor cores. app/ladder.py evaluates them."""

from pathlib import Path
from typing import Annotated

import typer

from evoflash.cli import shared_options as options
from evoflash.cli.shared_options import Evaluator, Force, Gpu, Json, ProblemText, Quiet, Seed, Verbose
from evoflash.notices import say
from evoflash.views.terminal import json_text, stdout_console
from evoflash.written_files import wrote


def ladder(
    *,
    gpu: Gpu = None,
    problem: ProblemText = "mission",
    evaluator: Evaluator = None,
    plot: Annotated[Path | None, typer.Option(help="Draw a bar chart to a .svg or .png file.")] = None,
    force: Force = False,
    show: Annotated[
        bool, typer.Option("--show", help="Print each step's kernel and what changed in it; run nothing.")
    ] = False,
    seed: Seed = 0,
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Eight kernels from scalar code to mma.sync, each timed.

    What every technique brings.

    Example: evoflash ladder --gpu l4 --problem mission --plot ladder.svg
    """
    from evoflash.app import ladder as steps
    from evoflash.views import ladder as view

    if show:
        shown = steps.sources(gpu=gpu, problem=problem)
        if as_json:
            typer.echo(json_text({"steps": [one.as_dict() for one in shown]}))
        else:
            view.print_sources(shown, stdout_console())
        return
    if plot is not None:
        view.check_plot(plot)
    climb = steps.climb(
        gpu=gpu,
        problem=problem,
        seed=seed,
        evaluator=evaluator,
        on_result=lambda result: say(view.line(result)),
    )
    options.show(climb, view.print_table, as_json=as_json)
    if plot is not None:
        view.plot(climb, plot)
        say(f"{wrote()} {plot}")
    if not climb.is_correct:
        raise typer.Exit(1)
