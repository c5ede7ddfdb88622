"""The command `evoflash search`. It parses, calls and prints; plan.py and run.py do the work."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evoflash.commands.options import (
    DEFAULT_STRATEGY,
    MOST,
    Db,
    Gpu,
    Json,
    ProblemText,
    Quiet,
    Seed,
    Verbose,
    strategy_names,
)
from evoflash.commands.terminal import interrupt_in_words
from evoflash.errors import NoKernelError, UsageError

if TYPE_CHECKING:
    from evoflash.commands.search.limits import Limits


def search(
    *,
    gpu: Gpu = None,
    problem: ProblemText = "mission",
    budget: Annotated[
        int | None,
        typer.Option(
            max=MOST,
            help="Distinct kernels to evaluate.",
            show_default="200; none with --minutes or --until",
        ),
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="Search for this long; finals come after.")] = None,
    until: Annotated[
        float | None,
        typer.Option(help="Stop at a kernel that reaches this share of the physical floor, as 0.95."),
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(help="Stop after this many seconds, or at the budget.")
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            help=f"{strategy_names()}.",
            show_default=f"{DEFAULT_STRATEGY}; evolution with --preset",
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="With --strategy evolution, what proposals may know: free, insight, solution or full; "
            "with -45 behind it in the 45 trials of EvoEngineer."
        ),
    ] = None,
    population: Annotated[
        str | None, typer.Option(help="With --preset: single, elites, islands or map-elites.")
    ] = None,
    seed: Seed = 0,
    family: Annotated[
        str | None, typer.Option(help="Kernel family; default: the one that fits the GPU.")
    ] = None,
    evaluator: Annotated[
        str | None,
        typer.Option(
            help="gpu (measured), emulated (estimated) or replay (recorded); "
            "default: gpu where --gpu is present."
        ),
    ] = None,
    recorded: Annotated[
        Path | None, typer.Option(help="With --evaluator replay: the recorded space to search.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start another run instead of continuing.")] = False,
    archive: Annotated[
        bool, typer.Option(help="Start from kernels measured before on such a GPU (champions/).")
    ] = True,
    transfer: Annotated[
        bool, typer.Option(help="Learn from the database's searches on near problems (surrogate).")
    ] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Render and compile only; nothing is stored.")
    ] = False,
    db: Db,
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Search for the fastest kernel.

    The same command again continues to the budget.

    Example: evoflash search --gpu l4 --problem mission,causal --budget 200
    """
    from evoflash.commands.search.limits import DEFAULT_BUDGET
    from evoflash.commands.search.limits import limits as limits_of
    from evoflash.strategies.presets import named_strategy, trials_of

    usual = "evolution" if preset or population else DEFAULT_STRATEGY
    strategy = named_strategy(strategy or usual, preset, population)
    limits = limits_of(trials_of(preset) if budget is None else budget, time_limit, minutes, until)
    if recorded is not None or evaluator == "replay":
        if recorded is None or evaluator not in (None, "replay"):
            raise UsageError("--evaluator replay and --recorded FILE go together: give both.")
        _on_recording(
            recorded,
            db,
            strategy=strategy,
            seed=seed,
            limits=limits,
            fresh=fresh,
            as_json=as_json,
        )
        return
    from evoflash.commands import kernel_report
    from evoflash.commands.search import plan as planning
    from evoflash.commands.search import run as running

    with interrupt_in_words():
        plan = planning.plan(
            gpu=gpu,
            problem=problem,
            strategy=strategy,
            seed=seed,
            family=family,
            evaluator=evaluator,
            archive=archive,
            transfer=transfer,
        )
    if dry_run:
        running.dry_run(plan, budget=limits.budget or DEFAULT_BUDGET)
        return
    with interrupt_in_words():
        result = running.run(plan, db, limits=limits, fresh=fresh, argv=sys.argv[1:])
    if result.best is None:
        raise NoKernelError(
            f"no correct kernel among {result.spent} evaluations: "
            "raise --budget or look at the reasons with `evoflash show --failures`."
        )
    typer.echo(kernel_report.describe_end(result, as_json=as_json))


def _on_recording(
    file: Path,
    db: str,
    *,
    strategy: str,
    seed: int,
    limits: "Limits",
    fresh: bool,
    as_json: bool,
) -> None:
    from evoflash.commands.search import recorded

    with interrupt_in_words():
        result = recorded.search_recording(
            file,
            db,
            strategy=strategy,
            seed=seed,
            limits=limits,
            fresh=fresh,
            argv=sys.argv[1:],
        )
    if result.best is None:
        raise NoKernelError(
            f"none of the {result.spent} recorded configurations was correct: raise --budget."
        )
    typer.echo(recorded.describe(result, as_json=as_json))
