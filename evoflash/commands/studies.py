"""The commands for those who study a search: insights, replay, record, ladder. Decides nothing, as cli.py."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from evoflash.commands.options import Db, Gpu, Json, MaybeProblem, ProblemText, Quiet, Seed, Verbose


def add_to(app: typer.Typer) -> None:
    """Make them commands of the application."""
    for command in (insights, replay, record, ladder):
        app.command()(command)


def insights(
    *,
    gpu: Gpu = None,
    problem: MaybeProblem = None,
    db: Db,
    as_json: Json = False,
) -> None:
    """What each mutation operator brought in the newest search, and how its winner came about.

    Example: evoflash insights --gpu l4 --problem mission
    """
    from rich.console import Console

    from evoflash.commands import insights as learnt
    from evoflash.commands import search_run as session
    from evoflash.store.store import open_store

    with open_store(db, read_only=True) as store:
        found = learnt.read(store, problem=session.canonical(problem), gpu=session.known(gpu))
    if as_json:
        typer.echo(learnt.as_json(found))
    else:
        learnt.print_insights(found, Console(width=None if sys.stdout.isatty() else 180))


def replay(
    file: Annotated[Path, typer.Argument(help="A Kernel Tuner cache or T4 file, plain or gzip.")],
    *,
    strategy: Annotated[str, typer.Option(help="Names with commas between, or all.")] = "all",
    budget: Annotated[int, typer.Option(min=1, help="Evaluations of each run.")] = 200,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each strategy, with seeds of their own.")] = 20,
    ahead: Annotated[int, typer.Option(min=1, help="Proposals in flight, as where evaluation is slow.")] = 1,
    seed: Seed = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare search strategies on a recorded space; needs no GPU and stores nothing.

    Example: evoflash replay convolution.json.gz --strategy evolution,tpe --budget 200 --repeats 20
    """
    from rich.console import Console

    from evoflash.commands import replay_report
    from evoflash.replay.comparison import chosen, compare
    from evoflash.replay.kernel_tuner import read_recording

    names = chosen(strategy)
    recording = read_recording(file)
    comparison = compare(recording, names, budget=budget, repeats=repeats, seed=seed, ahead=ahead)
    if as_json:
        typer.echo(replay_report.as_json(comparison))
    else:
        replay_report.print_table(comparison, Console(width=None if sys.stdout.isatty() else 120))


def record(
    file: Annotated[Path, typer.Argument(help="Where to write; .gz compresses.")],
    *,
    problem: Annotated[str, typer.Option("--problem", help="As it was searched.")],
    gpu: Annotated[str, typer.Option("--gpu", help="As it was searched.")],
    family: Annotated[
        str | None, typer.Option(help="Kernel family; needed where the database has several.")
    ] = None,
    estimated: Annotated[
        bool, typer.Option("--estimated", help="Write a model's estimates, marked so, not measurements.")
    ] = False,
    db: Db,
    quiet: Quiet = False,
) -> None:
    """Write every outcome of a problem on a GPU as a Kernel Tuner cache, for `evoflash replay` and others.

    Example: evoflash record mission-h200.json.gz --problem mission --gpu h200
    """
    from evoflash.commands import record as recording
    from evoflash.commands.search_run import say

    written = recording.record(db, file, problem=problem, gpu=gpu, family=family, estimated=estimated)
    say(f"wrote {file}: {len(written.space.genomes)} configurations of {written.space.family}.")


def ladder(
    *,
    gpu: Gpu = None,
    problem: ProblemText = "mission",
    evaluator: Annotated[
        str | None,
        typer.Option(help="gpu (measured) or emulated (estimated); default: gpu where --gpu is present."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw a bar chart to a .svg or .png file.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Eight named kernels from scalar to mma.sync, each checked and timed: what every technique brings.

    Example: evoflash ladder --gpu l4 --problem mission --plot ladder.svg
    """
    from rich.console import Console

    from evoflash.commands.ladder import report as steps_report
    from evoflash.commands.ladder import steps
    from evoflash.commands.search_run import say

    if plot is not None:
        steps_report.check_plot(plot)
    climb = steps.climb(
        gpu=gpu,
        problem=problem,
        seed=seed,
        evaluator=evaluator,
        on_result=lambda result: say(steps_report.line(result)),
    )
    if as_json:
        typer.echo(steps_report.as_json(climb))
    else:
        steps_report.print_table(climb, Console(width=None if sys.stdout.isatty() else 180))
    if plot is not None:
        steps_report.plot(climb, plot)
        say(f"wrote {plot}")
    if not climb.is_correct:
        raise typer.Exit(1)
