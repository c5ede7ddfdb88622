"""One run of one case in this process: what the emulator reports, and whether the result is right.

For a process that may be lost: a kernel that goes far astray can take it along.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evoflash.commands.check.advice import advice
from evoflash.commands.check.own_kernel_run import Written, launch_own
from evoflash.commands.check.subject import Case, WorkloadCase
from evoflash.emulator.call import Run, run_call
from evoflash.emulator.launch import Emulation, Report, Site
from evoflash.operation import Output, TestInput
from evoflash.operations import operation_of
from evoflash.validation.expected import every_row
from evoflash.validation.validator import judge
from evoflash.validation.wrong_elements import describe_error


@dataclass(frozen=True, slots=True, eq=False)
class Ran:
    """What one run of one case brought."""

    reports: tuple[Report, ...]
    sites: tuple[Site, ...]
    seconds: float  # CPU time in the emulator
    wrong: tuple[str, ...] = ()  # how the result is wrong: a headline, then notes
    written: tuple[Written, ...] = ()


def run_case(library: Path, case: Case, run: Run, inputs_name: str) -> Ran:
    """One run of one case. UsageError when the launch does not fit the kernel."""
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
