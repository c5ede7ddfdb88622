"""`evoflash ladder` shows eight kernels, from scalar code to tensor cores. app/ladder.py evaluates them."""

from pathlib import Path
from typing import Annotated

import typer

from evoflash.cli.options import Gpu, Json, ProblemText, Quiet, Seed, Verbose
from evoflash.notices import say
from evoflash.views.terminal import stdout_console


def ladder(
    *,
    gpu: Gpu = None,
    problem: ProblemText = "mission",
    evaluator: Annotated[
        str | None,
        typer.Option(help="gpu (measured) or emulated (estimated); default: gpu where --gpu is present."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw a bar chart to a .svg or .png file.")] = None,
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
    from evoflash.views import ladder as report

    if show:
        from evoflash.app import ladder as sources

        shown = sources.sources(gpu=gpu, problem=problem)
        if as_json:
            typer.echo(sources.as_json(shown))
        else:
            sources.print_sources(shown, stdout_console())
        return
    if plot is not None:
        report.check_plot(plot)
    climb = steps.climb(
        gpu=gpu,
        problem=problem,
        seed=seed,
        evaluator=evaluator,
        on_result=lambda result: say(report.line(result)),
    )
    if as_json:
        typer.echo(report.as_json(climb))
    else:
        report.print_table(climb, stdout_console())
    if plot is not None:
        report.plot(climb, plot)
        say(f"wrote {plot}")
    if not climb.is_correct:
        raise typer.Exit(1)
