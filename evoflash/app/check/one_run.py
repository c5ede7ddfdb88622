"""The record of one run of a kernel in the emulator, and how it ended. Runs nothing."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evoflash.app.check.cases import Case, OutputArray, WorkloadCase
from evoflash.emulator.call import EmulatorRun
from evoflash.emulator.launch import EmulatorReport, Site
from evoflash.evaluation import Status
from evoflash.isolation import Ending


@dataclass(frozen=True, slots=True)
class ToRun:
    """One run of one case that is to be made, with inputs of that name."""

    case: Case
    run: EmulatorRun
    inputs: str
    text: str = ""  # of the kernel with smaller constants; "": as it is


@dataclass(frozen=True, slots=True, eq=False)
class CaseRun:
    """What one run of one case brought."""

    reports: tuple[EmulatorReport, ...]
    sites: tuple[Site, ...]
    seconds: float  # CPU time in the emulator
    counters: Mapping[str, int]  # of all its launches
    is_judged: bool = False  # by the reference
    rel_l2: float | None = None  # the error of an output that was judged
    wrong: tuple[str, ...] = ()  # how the result is wrong: a headline, then notes
    written: tuple[OutputArray, ...] = ()


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as the report lists it."""

    case: str
    run: EmulatorRun
    inputs: str  # the kind of them; of no meaning for a kernel with arguments of its own
    seconds: float | None  # of CPU time; None where the run's process was lost
    rel_l2: float | None = None  # the error where the reference judged it

    def as_dict(self) -> dict[str, Any]:
        """What was run, and what it took."""
        run = {"delivery": self.run.delivery, "schedule": self.run.schedule, "seed": self.run.seed}
        more = {
            "strided": self.run.is_strided,
            "rescaled": self.run.is_rescaled,
            "without": [*self.run.without],
        }
        return {"case": self.case, "inputs": self.inputs, **run, **more, "cpu_s": self.seconds}


@dataclass(frozen=True, slots=True, eq=False)
class OneRun:
    """A run that was made, and how it ended."""

    made: ToRun
    ending: Ending[CaseRun]

    @property
    def case(self) -> Case:
        return self.made.case

    @property
    def run(self) -> EmulatorRun:
        return self.made.run

    @property
    def inputs(self) -> str:
        """The name of their kind."""
        return self.made.inputs

    @property
    def outputs(self) -> tuple[OutputArray, ...]:
        """The output arrays of a kernel with arguments of its own."""
        return self.ending.value.written if self.ending.value else ()

    @property
    def is_clean(self) -> bool:
        """Whether it came to its end and the emulator reported nothing."""
        return self.ending.value is not None and not self.ending.value.reports

    @property
    def is_right(self) -> bool:
        """Whether nothing speaks against it."""
        return self.is_clean and not (self.ending.value and self.ending.value.wrong)

    @property
    def is_endless(self) -> bool:
        """Whether its time ran out, the emulator's own or the process's."""
        reports = self.ending.value.reports if self.ending.value else ()
        return self.ending.status is Status.TIMEOUT or any(report.kind == "TIMEOUT" for report in reports)

    def record(self) -> RunRecord:
        value = self.ending.value
        seconds, rel_l2 = (value.seconds, value.rel_l2) if value else (None, None)
        return RunRecord(name_of(self.case), self.run, self.inputs, seconds, rel_l2)


def crowding() -> float:
    """How many times as long CPU seconds take, as more processes want to run than there are cores."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def name_of(case: Case) -> str:
    if isinstance(case, WorkloadCase):
        few = "" if not case.sms else ", on one SM" if case.sms == 1 else f", on {case.sms} SMs"
        return str(case.workload) + few
    return f"grid {case.launch.grid}, block {case.launch.block}".replace(" ", "")


Places = tuple[str, int, int]  # of a report: its kind and both lines
_MOST_S_AGAIN = 2.0  # of CPU time: a run that took longer is not repeated


def lines_to_watch(ran: CaseRun, told: Collection[Places]) -> tuple[int, ...]:
    """Of a run that is worth making once more, so that its reports name callers of their second place: one
    that has two places of which no earlier run has `told` that.
    """
    if places_told(ran) <= set(told):
        return ()
    return tuple(
        dict.fromkeys(line for each in ran.reports if each.line2 for line in (each.line2, each.line))
    )


def places_told(ran: CaseRun) -> set[Places]:
    """Those of which the callers are known once it was made again; none where that would take too long."""
    if ran.seconds > _MOST_S_AGAIN:
        return set()
    return {_places(each) for each in ran.reports if each.line2}


def with_callers(ran: CaseRun, again: CaseRun) -> CaseRun:
    """The run with its reports as the second one tells them, which watched lines."""
    return replace(ran, reports=tuple(_told_reports(ran.reports, again.reports)))


def _told_reports(
    reports: Sequence[EmulatorReport], again: Sequence[EmulatorReport]
) -> Iterator[EmulatorReport]:
    """Each report as the second run tells it, once for each way that the kernel came to its places."""
    told: dict[Places, list[EmulatorReport]] = {}
    for each in again:
        told.setdefault(_places(each), []).append(each)
    for report in reports:
        yield from told.get(_places(report), (report,))


def _places(report: EmulatorReport) -> Places:
    return report.kind, report.line, report.line2
