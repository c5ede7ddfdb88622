"""`evoflash search` searches for the fastest correct kernel of a problem, or of several.

It parses, calls and prints: app/search/ plans and runs the search.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evoflash.app import catalogue
from evoflash.cli.json_answer import add_row
from evoflash.cli.shared_options import (
    Db,
    Gpu,
    Json,
    PricePerHour,
    ProblemText,
    Quiet,
    Seed,
    Verbose,
    interrupt_in_words,
    show,
    show_end,
    strategy_names,
    writes_nothing,
)
from evoflash.errors import NoKernelError, UsageError
from evoflash.settings import DEFAULT_STRATEGY, MOST, MOST_AHEAD, MOST_REPEATS, MOST_SEED, MOST_WORKERS, is_on
from evoflash.views.terminal import json_text, stdout_console, tell

if TYPE_CHECKING:
    from evoflash.app.search.language_model import LanguageModel
    from evoflash.app.search.limits import Limits
    from evoflash.app.search.machines import MachineOptions
    from evoflash.app.search.many import SearchRequest


def search(
    ctx: typer.Context,
    *,
    gpu: Gpu = None,
    problem: ProblemText = "mission",
    problems: Annotated[
        Path | None,
        typer.Option(
            help="A file of problems, as of portfolio: a run for each, with its own budget or minutes."
        ),
    ] = None,
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
            "full-45, and so on: with EvoEngineer's budget of 45."
        ),
    ] = None,
    population: Annotated[
        str | None, typer.Option(help="With --preset: single, elites, islands or map-elites.")
    ] = None,
    seed: Seed = 0,
    repeats: Annotated[
        int,
        typer.Option(min=1, max=MOST_REPEATS, help="Search so many times, with the seeds from --seed on."),
    ] = 1,
    family: Annotated[
        str | None, typer.Option(help="Kernel family; default: all that fit the GPU and the problem.")
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            help="At the end show the Pareto front of these, as latency,registers (see leaderboard); with "
            "energy it is measured in the finals."
        ),
    ] = None,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile", help="At the end read the finalists' hardware counters (see evoflash profile)."
        ),
    ] = False,
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
        bool,
        typer.Option(help="Learn from searches on other problems, stored and shipped (surrogate)."),
    ] = True,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=MOST,
            help="Start from so many hand-written kernels of each family.",
            show_default="all that are meant for such a shape",
        ),
    ] = None,
    gpus: Annotated[
        str | None, typer.Option(help="Search on several GPUs of this machine: 0,1 or all.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST_WORKERS, help="Compile and emulate in this many workers of a private cluster."
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="Search on the workers of a Dask scheduler: tcp://127.0.0.1:8786 or tls://HOST:8786."
        ),
    ] = None,
    tls: Annotated[
        Path | None, typer.Option(help="With --scheduler: the folder of cert.pem and key.pem.")
    ] = None,
    ahead: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_AHEAD,
            help="Proposals in flight; a seed and a number propose the same on any number of workers.",
            show_default="two for each worker, and 16 for each GPU at most",
        ),
    ] = None,
    llm: Annotated[
        str | None,
        typer.Option("--llm", metavar="MODEL", help="A language model that may propose edits."),
    ] = None,
    llm_url: Annotated[
        str | None,
        typer.Option(
            "--llm-url",
            metavar="URL",
            help="Where it answers in OpenAI's chat protocol: http://127.0.0.1:8080/v1.",
        ),
    ] = None,
    llm_key_env: Annotated[
        str | None,
        typer.Option("--llm-key-env", metavar="NAME", help="The environment variable with its key."),
    ] = None,
    llm_prompt: Annotated[
        str | None,
        typer.Option(
            "--llm-prompt",
            help="What it is told: free, insight, solution or full.",
            show_default="full",
        ),
    ] = None,
    llm_replay: Annotated[
        str | None,
        typer.Option(
            "--llm-replay", metavar="RUN", help="Repeat what the model of this run answered; ask none."
        ),
    ] = None,
    llm_source: Annotated[
        bool,
        typer.Option("--llm-source", help="With --llm: it edits a rendered kernel's source, not genes."),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", callback=writes_nothing, help="Render and compile only; nothing is stored."
        ),
    ] = False,
    price_per_hour: PricePerHour = None,
    db: Db,
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Search for the fastest kernel.

    The same command again continues to the budget.

    With --problems there is a run for each problem of a file, the heaviest first, and a table at the end;
    every limit is meant for each problem. With --gpus or --workers, and with the workers of a --scheduler,
    several are searched at a time.

    With --repeats there is a run for each seed, one after the other, and a table of how far apart they come
    out; `evoflash runs compare` compares two such searches.

    Example: evoflash search --gpu l4 --problem mission,causal --budget 200
    """
    from evoflash.app.runs import parse_price
    from evoflash.app.search.limits import DEFAULT_BUDGET
    from evoflash.app.search.limits import limits as limits_of

    parse_price(price_per_hour)
    model = None
    if llm or llm_url or llm_key_env or llm_prompt or llm_replay or llm_source:
        from evoflash.app.search.language_model import language_model

        model = language_model(llm, llm_url, llm_key_env, llm_prompt, llm_replay, source=llm_source)
    usual = "evolution" if preset or population else DEFAULT_STRATEGY
    strategy, trials = catalogue.preset_strategy(strategy or usual, preset, population)
    limits = limits_of(trials if budget is None else budget, time_limit, minutes, until)
    problems = _file(ctx, problems)
    if problems is not None and (recorded is not None or evaluator == "replay" or dry_run):
        raise UsageError(
            "--problems is for searches that evaluate: leave it or the dry run or recording away."
        )
    if repeats > 1 and (problems is not None or recorded is not None or evaluator == "replay" or dry_run):
        raise UsageError(
            "--repeats is for searches of one problem that evaluate: leave it or the other option away."
        )
    if recorded is not None or evaluator == "replay":
        _check_alone(gpus=gpus, workers=workers, scheduler=scheduler, tls=tls, ahead=ahead, seeds=seeds)
        if recorded is None or evaluator not in (None, "replay"):
            raise UsageError("--evaluator replay and --recorded FILE go together: give both.")
        if objective is not None or profile:
            option = "--objective" if objective is not None else "--profile"
            raise UsageError(f"a recorded space has times alone: {option} is for searches on kernels.")
        if llm_source:
            raise UsageError("a recorded space has no texts: --llm-source is for searches on kernels.")
        _on_recording(
            recorded,
            db,
            strategy=strategy,
            seed=seed,
            limits=limits,
            fresh=fresh,
            as_json=as_json,
            price_per_hour=price_per_hour,
            llm=model,
        )
        return
    if not dry_run and scheduler is None:
        catalogue.begin_emulator()  # the first emulation waits for it, and imports take a second
    from evoflash.app.search import plan as planning
    from evoflash.app.search import session as running
    from evoflash.app.search.machines import MachineOptions
    from evoflash.app.search.many import SearchRequest, search_one
    from evoflash.views.progress import Progress
    from evoflash.views.search import dry_run_line, dry_run_row

    planned: dict[str, Any] = {
        "gpu": gpu,
        "strategy": strategy,
        "seed": seed,
        "family": family,
        "archive": archive,
        "transfer": transfer,
        "seeds": seeds,
        "objective": objective,
        "profile": profile,
        "llm": model,
    }
    if dry_run:
        more = {"llm-replay": llm_replay, "llm-source": llm_source or None, "profile": profile or None}
        _check_alone(llm=llm, **more)
        _check_alone(gpus=gpus, workers=workers, scheduler=scheduler, tls=tls, ahead=ahead)
        with interrupt_in_words():
            plan = planning.plan(problem=problem, evaluator=evaluator, is_timed=False, **planned)
        for tried in running.dry_run(plan, budget=limits.budget or DEFAULT_BUDGET):
            if as_json:
                add_row("builds", dry_run_row(*tried))
            else:
                typer.echo(dry_run_line(*tried))
        return
    asked = MachineOptions(gpus, workers, scheduler, tls, ahead, evaluator)
    wanted = SearchRequest(planned, db, limits, fresh, sys.argv[1:])
    if problems is not None:
        _for_each(problems, wanted, asked, as_json=as_json, price_per_hour=price_per_hour)
        return
    if repeats > 1:
        _for_each_seed(range(seed, seed + repeats), problem, wanted, asked, as_json=as_json)
        return
    with interrupt_in_words():
        result = search_one(wanted, problem, asked, watch=Progress)
    if result.best is None:
        raise NoKernelError(
            f"no correct kernel among {result.spent} evaluations: "
            "raise --budget or look at the reasons with `evoflash show --failures`."
        )
    show_end(result, as_json=as_json, price_per_hour=price_per_hour)


def _file(ctx: typer.Context, problems: Path | None) -> Path | None:
    """--problems, but for one of a config file where the command line has a --problem.

    UsageError where both are on the command line.
    """
    given = [name for name in ("problem", "problems") if _is_on_command_line(ctx, name)]
    if len(given) == 2:
        raise UsageError("--problem and --problems say what to search for: give one of them.")
    return None if given == ["problem"] else problems


def _is_on_command_line(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _for_each(
    file: Path,
    wanted: "SearchRequest",
    asked: "MachineOptions",
    *,
    as_json: bool,
    price_per_hour: float | None,
) -> None:
    from evoflash.app.search import many as side_by_side
    from evoflash.app.shape_files import read_problems
    from evoflash.views import search as view
    from evoflash.views.progress import Progress

    with interrupt_in_words():
        outcomes = side_by_side.search(read_problems(file), wanted, asked, watch=Progress)
    if as_json:
        tell(json_text({"searches": [each.as_dict(price_per_hour) for each in outcomes]}), whole=True)
    elif is_on("quiet"):
        tell(view.in_lines(outcomes))
    else:
        view.print_summary(outcomes, stdout_console())
    side_by_side.check_results(outcomes)


def _for_each_seed(
    seeds: range, problem: str, wanted: "SearchRequest", asked: "MachineOptions", *, as_json: bool
) -> None:
    from evoflash.app.search.many import search_seeds
    from evoflash.views.progress import Progress
    from evoflash.views.runs import print_repeats

    if seeds[-1] > MOST_SEED:
        raise UsageError(f"--seed {seeds[0]} --repeats {len(seeds)}: the last seed is beyond {MOST_SEED}.")
    with interrupt_in_words():
        found = search_seeds(seeds, problem, wanted, asked, watch=Progress)
    show(found, print_repeats, as_json=as_json)


def _check_alone(**options: object) -> None:
    """UsageError where it was said where to evaluate and nothing is to be evaluated."""
    for name, value in options.items():
        if value is not None:
            raise UsageError(
                f"--{name} is for searches that evaluate: leave it or the dry run or recording away."
            )


def _on_recording(
    file: Path,
    db: str,
    *,
    strategy: str,
    seed: int,
    limits: "Limits",
    fresh: bool,
    as_json: bool,
    price_per_hour: float | None,
    llm: "LanguageModel | None",
) -> None:
    from evoflash.app.search import recorded
    from evoflash.views.progress import Progress
    from evoflash.views.search import describe_recorded

    with interrupt_in_words():
        result = recorded.search_recording(
            file,
            db,
            strategy=strategy,
            seed=seed,
            limits=limits,
            fresh=fresh,
            argv=sys.argv[1:],
            watch=Progress,
            llm=llm,
        )
    if result.best is None:
        raise NoKernelError(
            f"none of the {result.spent} recorded configurations was correct: raise --budget."
        )
    if as_json:
        tell(json_text(result.as_dict(price_per_hour)), whole=True)
    else:
        tell(describe_recorded(result, price_per_hour))
