"""The command line: parse, one call, print. Decides nothing; data to stdout, everything else to stderr."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from evoflash.commands import studies
from evoflash.commands.baselines import command as baselines_command
from evoflash.commands.check import command as check_command
from evoflash.commands.compare import command as compare_command
from evoflash.commands.options import (
    Db,
    Export,
    Gpu,
    Json,
    MaybeProblem,
    ProblemText,
    Quiet,
    Seed,
    Verbose,
    Version,
    log_to_stderr,
)
from evoflash.commands.termination import EXIT_CODE, Terminated, end_on_signals, kept
from evoflash.errors import EvoflashError, NoKernelError, UsageError

app = typer.Typer(
    name="evoflash",
    help="Evolve fused-attention CUDA kernels: mutate, compile, check, time, keep.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def common(version: Version = False, verbose: Verbose = False, quiet: Quiet = False) -> None:
    """Options that stand before the command; -v and -q may stand behind it as well."""
    del version, verbose, quiet  # their callbacks have run


@app.command()
def search(
    *,
    gpu: Gpu = None,
    problem: ProblemText = "mission",
    budget: Annotated[int, typer.Option(help="Distinct kernels to evaluate.")] = 200,
    time_limit: Annotated[float | None, typer.Option(help="Stop after this many seconds.")] = None,
    strategy: Annotated[
        str, typer.Option(help="evolution, tpe, nsga2, uniform or exhaustive.")
    ] = "evolution",
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
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Render and compile only; nothing is stored.")
    ] = False,
    db: Db,
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Search for the fastest kernel; the same command again continues to the budget.

    Example: evoflash search --gpu l4 --problem mission,causal --budget 200
    """
    from evoflash.commands import search_run as session

    if recorded is not None or evaluator == "replay":
        if recorded is None or evaluator not in (None, "replay"):
            raise UsageError("--evaluator replay and --recorded FILE go together: give both.")
        _search_recorded(recorded, db, strategy, seed, budget, time_limit, fresh=fresh, as_json=as_json)
        return
    with _stopped_in_words():
        plan = session.plan(
            gpu=gpu,
            problem=problem,
            strategy=strategy,
            seed=seed,
            family=family,
            evaluator=evaluator,
            budget=budget,
            archive=archive,
        )
    if dry_run:
        session.dry_run(plan, budget=budget)
        return
    with _stopped_in_words():
        found = session.run(plan, db, budget=budget, time_limit_s=time_limit, fresh=fresh, argv=sys.argv[1:])
    if found.best is None:
        raise NoKernelError(
            f"no correct kernel among {found.spent} evaluations: "
            "raise --budget or look at the reasons with `evoflash show --failures`."
        )
    _print_found(found, as_json=as_json)


@app.command()
def best(
    *,
    export: Export = None,
    show: Annotated[bool, typer.Option("--show", help="Print the kernel's CUDA.")] = False,
    archive: Annotated[
        bool | None,
        typer.Option(help="The shipped archive's kernel, or never; default: where the database has none."),
    ] = None,
    gpu: Gpu = None,
    problem: MaybeProblem = None,
    db: Db,
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """The best kernel known: measured if there is one, else estimated, and marked so.

    Where the database has none for --problem, the shipped archive may: its kernel is checked and timed again
    where its GPU is, and stored; elsewhere the emulator checks it, and its time is marked as archived.

    Example: evoflash best --export kernel.cu
    """
    from evoflash.commands import best as archived
    from evoflash.families.export import write_text

    found = archived.best(db, problem=problem, gpu=gpu, archive=archive, argv=sys.argv[1:])
    if show:
        typer.echo(found.cuda(), nl=False)
        return
    if export is not None:
        write_text(export, found.cuda())
        typer.echo(f"evoflash: wrote {export}", err=True)
    typer.echo(found.json if as_json else found.text)


@app.command()
def leaderboard(
    *,
    gpu: Gpu = None,
    problem: MaybeProblem = None,
    top: Annotated[int, typer.Option(min=1, help="Rows per table.")] = 20,
    db: Db,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Correct kernels, fastest first; measured and estimated ones in tables of their own.

    Example: evoflash leaderboard --gpu l4 --problem mission
    """
    from rich.console import Console

    from evoflash.commands import leaderboard as board
    from evoflash.commands import search_run as session
    from evoflash.store.store import open_store

    with open_store(db, read_only=True) as store:
        table = board.read(store, problem=session.canonical(problem), gpu=session.known(gpu), top=top)
    if as_json or as_csv:
        typer.echo(board.as_json(table) if as_json else board.as_csv(table), nl=as_json)
    else:
        board.print_table(table, Console(width=None if sys.stdout.isatty() else 180))


@app.command()
def show(
    *,
    genome_id: Annotated[str | None, typer.Argument(help="A genome id or its first digits.")] = None,
    command: Annotated[bool, typer.Option("--command", help="Print the line that re-evaluates it.")] = False,
    failures: Annotated[
        bool, typer.Option("--failures", help="Count what went wrong in the newest run.")
    ] = False,
    db: Db,
    as_json: Json = False,
) -> None:
    """Everything known about one kernel: values, status, registers, verdicts, timings.

    Example: evoflash show 3f2a
    """
    from evoflash.commands import kernel_report as report
    from evoflash.store.store import open_store

    with open_store(db, read_only=True) as store:
        if failures:
            typer.echo(report.failures(store, as_json=as_json))
            return
        if genome_id is None:
            raise UsageError("give a genome id (its first digits do) or --failures.")
        evaluations = report.find(store, genome_id)
    if command:
        typer.echo(report.command(evaluations[0]))
    else:
        typer.echo(report.as_json(evaluations) if as_json else report.describe(evaluations))


@app.command()
def export(
    family: Annotated[str, typer.Option("--family", help="Kernel family.")],
    gpu: Annotated[str, typer.Option("--gpu", help="A known GPU.")],
    values: Annotated[list[str] | None, typer.Option("--set", help="param=value; may be repeated.")] = None,
    problem: ProblemText = "mission",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Default: stdout.")] = None,
) -> None:
    """Print any genome as one complete .cu file; the same input gives the same bytes.

    Example: evoflash export --family flash_mma --set warps=4 --set block_n=64 --problem mission --gpu l4
    """
    from evoflash.families.export import export_values, write_text

    text = export_values(family, values or [], problem=problem, gpu=gpu)
    if output is None:
        sys.stdout.write(text)
    else:
        write_text(output, text)


@app.command()
def remeasure(
    *,
    top: Annotated[int, typer.Option(min=1, help="How many of the best estimates.")] = 20,
    gpu: Gpu = None,
    problem: MaybeProblem = None,
    db: Db,
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Measure the best estimates of a database made elsewhere on the GPU of this machine.

    Example: evoflash remeasure --top 20 --gpu l4
    """
    from evoflash.commands import remeasure as remeasurement

    with _stopped_in_words("the same command starts anew"):
        found = remeasurement.remeasure(db, top=top, gpu=gpu, problem=problem, argv=sys.argv[1:])
    if found.best is None:
        raise NoKernelError(
            f"none of the {found.spent} estimates was correct on this GPU: see `evoflash show`."
        )
    _print_found(found, as_json=as_json)


studies.add_to(app)
check_command.add_to(app)
baselines_command.add_to(app)
compare_command.add_to(app)


@app.command()
def families(as_json: Json = False) -> None:
    """The kernel families and their params.

    Example: evoflash families
    """
    from evoflash.commands import kernel_report as report

    typer.echo(report.families(as_json=as_json))


@app.command()
def gpus(as_json: Json = False) -> None:
    """The GPUs that evoflash knows, and which of them is present.

    Example: evoflash gpus
    """
    from evoflash.commands import kernel_report as report

    typer.echo(report.gpus(as_json=as_json))


@app.command()
def doctor(
    *,
    conformance: Annotated[
        bool,
        typer.Option("--conformance", help="Hold the emulator against this GPU, primitive by primitive."),
    ] = False,
    self_test: Annotated[
        bool, typer.Option("--self-test", help="Try frauds and mistakes on evoflash itself: all must fail.")
    ] = False,
    only: Annotated[
        str,
        typer.Option(
            help="Of --conformance, texts whose names begin so (wgmma,tma_3,arithmetic,snippets); of "
            "--self-test, frauds or their kernel."
        ),
    ] = "",
    time_limit: Annotated[
        float, typer.Option(help="Seconds after which --conformance and --self-test report what they have.")
    ] = 240.0,
    noise: Annotated[
        bool, typer.Option("--noise", help="Time copies of a kernel against each other on this GPU.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check this machine: NVRTC, host compiler, GPU, folders; each line ok or what to do.

    With --conformance: the same small kernels run in the emulator and on the GPU, for every primitive in all
    its modes, and their results are compared bit for bit; exit code 1 where any differs or did not run. About
    a minute. Ctrl-C reports what it has so far.

    With --noise: how far apart two copies of one kernel seem to be; it is kept, and comparisons on this
    machine call nothing below it faster. About half a minute.

    With --self-test: kernels with a known mistake, and tricks on clock and books, go through the same checks
    as a search's candidates, in the emulator and, where there is one, on the GPU; exit code 1 where one slips
    through, or where a right kernel is rejected. Under three minutes.

    Example: evoflash doctor
    """
    if self_test:
        _test_itself(only, time_limit, as_json=as_json)
        return
    if noise:
        _measure_noise(as_json=as_json)
        return
    if conformance:
        _conform([name for name in only.split(",") if name], time_limit, as_json=as_json)
        return
    if only:
        raise UsageError("--only chooses within --conformance or --self-test: give one of them as well.")
    from evoflash.commands.doctor import examine, render

    findings = examine()
    typer.echo(json.dumps([asdict(f) for f in findings], indent=2) if as_json else render(findings))
    if any(f.state == "missing" for f in findings):
        raise typer.Exit(1)


def _measure_noise(*, as_json: bool) -> None:
    from evoflash.commands import search_run as session
    from evoflash.cuda.launcher import present_spec
    from evoflash.timing import noise_floor as noise

    try:
        floors = noise.measure(present_spec(None), said=session.say)
    except KeyboardInterrupt:
        session.say("stopped by Ctrl-C: nothing is kept.")
        raise typer.Exit(130) from None
    if as_json:
        typer.echo(json.dumps([asdict(floor) for floor in floors], indent=2))
        return
    for floor in floors:
        called = f", {floor.called} of them called faster or slower" if floor.called else ""
        typer.echo(
            f"{floor.problem} {floor.protocol}: {floor.pairs} pairs within {floor.relative:.2%}{called}"
        )
    typer.echo(f"from now on {noise.floor():.1%} counts as equal on this machine")


def _conform(only: list[str], time_limit_s: float, *, as_json: bool) -> None:
    from evoflash.conformance import report
    from evoflash.conformance.run import check

    found = check(
        only=only, time_limit_s=time_limit_s, said=lambda line: typer.echo(f"conformance: {line}", err=True)
    )
    typer.echo(report.as_json(found) if as_json else report.render(found))
    if found.interrupted:
        raise typer.Exit(130)
    if found.equal < found.cases:
        raise typer.Exit(1)


def _test_itself(only: str, time_limit_s: float, *, as_json: bool) -> None:
    from evoflash.selftest import report
    from evoflash.selftest.run import self_test

    found = self_test(
        only=only,
        time_limit_s=time_limit_s,
        heard=lambda outcome: typer.echo(report.line(outcome), err=as_json),
    )
    typer.echo(report.as_json(found) if as_json else report.totals(found))
    if found.interrupted:
        raise typer.Exit(130)
    if not found.is_good:
        raise typer.Exit(1)


def _search_recorded(
    file: Path,
    db: str,
    strategy: str,
    seed: int,
    budget: int,
    time_limit_s: float | None,
    *,
    fresh: bool,
    as_json: bool,
) -> None:
    from evoflash.commands import record as recording
    from evoflash.commands import replay_report

    with _stopped_in_words():
        found = recording.search_recording(
            file,
            db,
            strategy=strategy,
            seed=seed,
            budget=budget,
            time_limit_s=time_limit_s,
            fresh=fresh,
            argv=sys.argv[1:],
        )
    if found.best is None:
        raise NoKernelError(f"none of the {found.spent} recorded configurations was correct: raise --budget.")
    typer.echo(replay_report.describe_found(found, as_json=as_json))


@contextmanager
def _stopped_in_words(then: str = "the same command continues") -> Iterator[None]:
    """Ctrl-C inside is one line, which says what the store has, and exit code 130."""
    from evoflash.commands import search_run as session

    try:
        yield
    except KeyboardInterrupt as stop:
        session.say(f"stopped by Ctrl-C: {kept(stop)}; {then}.")
        raise typer.Exit(130) from None


def _print_found(found: Any, *, as_json: bool) -> None:
    from evoflash.commands import kernel_report as report

    typer.echo(report.describe_found(found, as_json=as_json))


def main() -> None:
    """The console script: one line and a documented exit code for everything that can go wrong."""
    log_to_stderr()
    end_on_signals()
    try:
        app()
    except EvoflashError as error:
        sys.exit(_say(str(error), error.exit_code))
    except Terminated as stop:
        sys.exit(_say(f"stopped by SIGTERM: {kept(stop)}; the same command continues.", EXIT_CODE))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        sys.exit(
            _say(f"{error.strerror or error}{place}: check the path, its permissions and the free space.", 1)
        )


def _say(message: str, exit_code: int) -> int:
    print("evoflash: " + " ".join(message.split()), file=sys.stderr)
    return exit_code
