"""What the runs of a kernel showed: faults, and outputs that depend on the schedule. Runs nothing."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evoflash.commands.check.case_run import Ran
from evoflash.commands.check.findings import Finding, Place, from_report, merge
from evoflash.commands.check.own_kernel_run import Written, difference
from evoflash.commands.check.subject import Case, Subject, WorkloadCase
from evoflash.emulator.call import Run
from evoflash.emulator.launch import Site
from evoflash.evaluation import Status
from evoflash.isolation import Ending


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as the report lists it."""

    case: str
    run: Run
    inputs: str  # the kind of them; of no meaning for a kernel with arguments of its own
    seconds: float | None  # of CPU time; None where the run's process was lost


@dataclass(frozen=True, slots=True, eq=False)
class OneRun:
    """One run of one case, and how it ended."""

    case: Case
    run: Run
    inputs: str  # the name of their kind
    ending: Ending[Ran]

    @property
    def written(self) -> tuple[Written, ...]:
        """The output arrays of a kernel with arguments of its own."""
        return self.ending.value.written if self.ending.value else ()

    @property
    def is_clean(self) -> bool:
        """Whether it came to its end and the emulator reported nothing."""
        return self.ending.value is not None and not self.ending.value.reports

    @property
    def is_endless(self) -> bool:
        """Whether its time ran out, the emulator's own or the process's."""
        reports = self.ending.value.reports if self.ending.value else ()
        return self.ending.status is Status.TIMEOUT or any(report.kind == "TIMEOUT" for report in reports)

    def record(self) -> RunRecord:
        """What the report says of it."""
        seconds = self.ending.value.seconds if self.ending.value else None
        return RunRecord(_name(self.case), self.run, self.inputs, seconds)


def _name(case: Case) -> str:
    if isinstance(case, WorkloadCase):
        return str(case.workload) + (", on one SM" if case.is_crowded else "")
    return f"grid {case.launch.grid}, block {case.launch.block}".replace(" ", "")


def seen(subject: Subject, runs: Sequence[OneRun]) -> tuple[Finding, ...]:
    """What was found by running, each kind once for a line. The runs of a case follow one another."""
    return (*merge(_of(one, shift=subject.shift) for one in runs), *_unsteady(runs))


def _of(one: OneRun, *, shift: int) -> list[Finding]:
    where = str(one.run)
    if isinstance(one.case, WorkloadCase):
        where += f", {one.inputs} inputs, {_name(one.case)}"
    if one.ending.value is None:
        kind = "hang" if one.ending.status is Status.TIMEOUT else "crash"
        return [Finding(kind, one.ending.reason, runs=1, first_run=where)]
    findings = [from_report(report, run=where, shift=shift) for report in one.ending.value.reports]
    if one.ending.value.wrong:
        headline, *notes = one.ending.value.wrong
        places = tuple(Place(0, note) for note in notes)
        findings.append(Finding("wrong-result", headline, places=places, runs=1, first_run=where))
    return findings


def _unsteady(runs: Sequence[OneRun]) -> Iterator[Finding]:
    """Outputs that depend on the schedule, or that nobody wrote. Runs with reports say nothing of it."""
    findings: dict[tuple[str, str], Finding] = {}
    clean = (one for one in runs if one.is_clean)
    for _, of_case in itertools.groupby(clean, key=lambda one: id(one.case)):
        first, *others = of_case
        for array in first.written:
            if array.poisoned:
                text = f"{array.poisoned} of {array.values.size} elements of '{array.name}' were not written"
                findings["unwritten-output", array.name] = Finding("unwritten-output", text)
        for other in others:
            for name, finding in _differences(first, other):
                findings.setdefault(("schedule-dependent", name), finding)
    yield from findings.values()


def _differences(first: OneRun, other: OneRun) -> Iterator[tuple[str, Finding]]:
    """The output arrays that two runs of a case left unequal."""
    between = Place(0, f"between {first.run} and {other.run}")
    for one, another in zip(first.written, other.written, strict=True):
        if text := difference(one, another):
            yield one.name, Finding("schedule-dependent", text, places=(between,))


def clean_sites(runs: Sequence[OneRun]) -> Iterator[Site]:
    """The accesses of runs without a report: what a broken run moves says nothing about speed."""
    for one in runs:
        if one.is_clean and one.ending.value:
            yield from one.ending.value.sites
