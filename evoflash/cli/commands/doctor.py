"""`evoflash doctor` says what this machine lacks, and whether it can be trusted.

app/doctor.py examines the machine and measures its noise; trust/ has --conformance and --self-test.
"""

from dataclasses import asdict
from typing import Annotated

import typer

from evoflash.cli.shared_options import Json, interrupt_in_words
from evoflash.errors import UsageError
from evoflash.notices import say, working
from evoflash.settings import MOST
from evoflash.views.terminal import json_text, tell


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
            "--self-test, frauds, their kernel or where they are tried (emulator,GPU,NumPy,records)."
        ),
    ] = "",
    time_limit: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=MOST,
            help="Seconds after which --conformance and --self-test report what they have.",
        ),
    ] = 240.0,
    noise: Annotated[
        bool, typer.Option("--noise", help="Time copies of a kernel against each other on this GPU.")
    ] = False,
    require: Annotated[
        str, typer.Option(help="What must be there beside what all commands need: gpu,torch,noise.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Say what this machine lacks, and what to do.

    NVRTC, host compiler, GPU, folders: each line is ok or says what to do. Exit code 1 where something is
    missing; what is absent, such as a GPU on a laptop, most commands do without. With --require gpu it is
    missing too, for a machine that must have one.

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
    elif noise:
        _measure_noise(as_json=as_json)
    elif conformance:
        _conform([name for name in only.split(",") if name], time_limit, as_json=as_json)
    elif only:
        raise UsageError("--only chooses within --conformance or --self-test: give one of them as well.")
    else:
        _examine(require, as_json=as_json)


def _examine(require: str, *, as_json: bool) -> None:
    from evoflash.app.doctor import examine, wanted_subjects
    from evoflash.views.doctor import describe_machine

    required = wanted_subjects(require)
    with working("examining the machine; the first time the emulator is compiled"):
        findings = examine(required)
    tell(json_text([asdict(f) for f in findings]) if as_json else describe_machine(findings), whole=as_json)
    if any(f.state == "missing" for f in findings):
        raise typer.Exit(1)


def _measure_noise(*, as_json: bool) -> None:
    from evoflash.app.doctor import measure_noise
    from evoflash.views.doctor import describe_noise

    with interrupt_in_words("nothing is kept"):
        floors, floor = measure_noise()
    typer.echo(json_text([asdict(each) for each in floors]) if as_json else describe_noise(floors, floor))


def _conform(only: list[str], time_limit_s: float, *, as_json: bool) -> None:
    from evoflash.trust.conformance.run import check_primitives
    from evoflash.views.doctor import describe_conformance

    outcome = check_primitives(
        only=only, time_limit_s=time_limit_s, said=lambda line: say(f"conformance: {line}")
    )
    typer.echo(json_text(outcome.as_dict()) if as_json else describe_conformance(outcome))
    if outcome.is_interrupted:
        raise typer.Exit(130)
    if outcome.equal < outcome.cases:
        raise typer.Exit(1)


def _test_itself(only: str, time_limit_s: float, *, as_json: bool) -> None:
    from evoflash.trust.selftest.run import self_test
    from evoflash.views import doctor as view

    with working("trying frauds and mistakes on evoflash itself, each of which must be rejected"):
        outcome = self_test(
            only=only,
            time_limit_s=time_limit_s,
            heard=lambda fraud: typer.echo(view.line(fraud), err=as_json),
        )
    typer.echo(json_text(outcome.as_dict()) if as_json else view.totals(outcome))
    if outcome.interrupted:
        raise typer.Exit(130)
    if not outcome.is_good:
        raise typer.Exit(1)
