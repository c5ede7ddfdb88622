"""One run of one case in this process: what the emulator reports, and whether the result is right.

For a process that may be lost: a kernel that goes far astray can take it along.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evoflash.commands.check.advice import advice
from evoflash.commands.check.own_kernel_run import Written, launch_own
from evoflash.commands.check.subject import Case, WorkloadCase
from evoflash.compilers import gxx
from evoflash.emulator.call import Run, run_call
from evoflash.emulator.launch import Emulation, Report, Site
from evoflash.operation import Output, TestInput
from evoflash.operation.registry import operation_of
from evoflash.validation.expected import every_row
from evoflash.validation.validator import judge
from evoflash.validation.wrong_elements import describe_error

_MOST_S_AGAIN = 2.0  # of CPU time: a run that took longer is not repeated


@dataclass(frozen=True, slots=True, eq=False)
class Ran:
    """What one run of one case brought."""

    reports: tuple[Report, ...]
    sites: tuple[Site, ...]
    seconds: float  # CPU time in the emulator
    wrong: tuple[str, ...] = ()  # how the result is wrong: a headline, then notes
    written: tuple[Written, ...] = ()


def run_case(library: Path, case: Case, run: Run, inputs_name: str) -> Ran:
    """One run of one case, and once more where its reports are to name callers of their second place.

    UsageError when the launch does not fit the kernel.
    """
    ran = _run_once(library, case, run, inputs_name)
    watched = tuple(dict.fromkeys(line for r in ran.reports if r.line2 for line in (r.line2, r.line)))
    if not watched or ran.seconds > _MOST_S_AGAIN:
        return ran
    telling = gxx.build(library.with_suffix(".cu").read_text(), name=library.stem, tells_callers=True)
    again = _run_once(telling, case, replace(run, watched=watched), inputs_name)
    return replace(ran, reports=tuple(_with_callers(ran.reports, again.reports)))


def _with_callers(reports: Sequence[Report], again: Sequence[Report]) -> Iterator[Report]:
    """Each report as the second run tells it, once for each way that the kernel came to its places."""
    told: dict[tuple[str, int, int], list[Report]] = {}
    for each in again:
        told.setdefault(_places(each), []).append(each)
    for report in reports:
        yield from told.get(_places(report), (report,))


def _places(report: Report) -> tuple[str, int, int]:
    return report.kind, report.line, report.line2


def _run_once(library: Path, case: Case, run: Run, inputs_name: str) -> Ran:
    if not isinstance(case, WorkloadCase):
        emulation, written = launch_own(library, case.launch, case.arguments, run)
        return _ran((emulation,), written=written)
    inputs = operation_of(case.workload).draw(inputs_name, case.workload, seed=run.seed)
    emulations, output = run_call(library, case.launches, case.workload, inputs, run)
    if any(advice(report.kind).stops for emulation in emulations for report in emulation.reports):
        return _ran(emulations)  # half an output says nothing
    return _ran(emulations, wrong=_wrong(case, inputs, output))


def _wrong(case: WorkloadCase, inputs: TestInput, output: Output) -> tuple[str, ...]:
    operation = operation_of(case.workload)
    expected = operation.expect(case.workload, inputs, where=every_row(case.workload))
    verdict = judge(case.workload, [(inputs, expected, output)])
    if verdict.passed:
        return ()
    if verdict.reason.startswith("lse "):
        return (f"the result is wrong: {verdict.reason}",)
    worst, extent = describe_error(case.workload, expected, output)
    return f"the result is wrong: {worst}", extent, f"the gate that it fails: {verdict.reason}"


def _ran(
    emulations: Sequence[Emulation], *, wrong: tuple[str, ...] = (), written: tuple[Written, ...] = ()
) -> Ran:
    return Ran(
        reports=tuple(report for emulation in emulations for report in emulation.reports),
        sites=tuple(site for emulation in emulations for site in emulation.sites),
        seconds=sum(emulation.seconds for emulation in emulations),
        wrong=wrong,
        written=written,
    )
