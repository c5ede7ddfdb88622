"""Which runs of somebody else's kernel are made in a sandbox, and which once more. Judges nothing."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evoflash.app.check.cases import WorkloadCase
from evoflash.app.check.confined_runs import ConfinedRuns
from evoflash.app.check.one_run import OneRun, Places, ToRun, lines_to_watch, places_told, with_callers
from evoflash.kernels import gxx
from evoflash.operation import Workload
from evoflash.sandbox.boundary import Boundary, found_boundary

_MOST_PROCESSES = 4
_RUNS_OF_A_PROCESS = 8  # starting one costs as much as these many ordinary runs
_MEMORY_BYTES = 4 << 30
_MOST_S = 3600.0  # of a check, which a person can end


@dataclass(frozen=True, slots=True)
class Confinement:
    """Where somebody else's kernel is compiled and run: inside of what, how long, and in how much memory."""

    boundary: Boundary
    seconds: float
    memory_bytes: int = _MEMORY_BYTES
    is_brief: bool = False  # little beside the planned runs, none after some that failed, no callers


def confinement_for(*, is_foreign: bool, is_unsafe: bool = False) -> Confinement | None:
    """That of a check of a text that evoflash did not make; none of its own kernels. SandboxError."""
    return Confinement(found_boundary(is_unsafe=is_unsafe), _MOST_S) if is_foreign else None


def run_whole(confined: ConfinedRuns, to_run: Sequence[ToRun], *, text: str, name: str) -> list[OneRun]:
    """The runs that were made; those whose reports have a second place tell its callers, too."""
    processes = processes_for(to_run)
    with confined.workers(processes) as workers:
        ran = workers.run_all(to_run)
    watched, told_of = dict[int, tuple[int, ...]](), set[Places]()
    for at, one in enumerate(ran):
        if one.ending.value and (lines := lines_to_watch(one.ending.value, told_of)):
            watched[at] = lines
            told_of |= places_told(one.ending.value)
    again = [*watched]
    if not again:
        return ran

    def telling(small_text: str) -> Path:
        return gxx.build(
            small_text or text, name=name, tells_callers=True, sees_all=True, boundary=confined.boundary
        )

    asked = [replace(ran[at].made, run=replace(ran[at].run, watched=watched[at])) for at in again]
    with replace(confined, library_of=telling).workers(min(processes, len(again))) as workers:
        told = workers.run_all(asked)
    for at, second in zip(again, told, strict=False):  # fewer where time ran out
        first = ran[at].ending
        if first.value and second.ending.value:
            ending = replace(first, value=with_callers(first.value, second.ending.value))
            ran[at] = replace(ran[at], ending=ending)
    return ran


# What runs are repeated for, in the counts of `_work` (some 4 million a second); what a run's process takes.
_MOST_REPEATED, _PROCESS_COST = 1_000_000, 100_000
_HEAVY = {"mma": 32, "wgmma_macs": 1, "wgmma": 0}  # counted once for a warp or a warpgroup


def run_briefly(
    confined: ConfinedRuns, to_run: Sequence[ToRun], again: Sequence[ToRun]
) -> tuple[list[OneRun], list[ToRun]]:
    """The runs that were made, and those that were meant to be: all of the first list, and of the second,
    which are on its workloads once more, those that cost little. What a run costs is counted, not timed, so
    that the same are made each time.
    """
    with confined.workers(processes_for(to_run)) as workers:
        ran = workers.run_all(to_run, is_brief=True)
        if len(ran) < len(to_run):
            return ran, [*to_run]
        costs: dict[Workload, int] = {}
        for one in ran:
            if isinstance(one.case, WorkloadCase):
                costs[one.case.workload] = max(costs.get(one.case.workload, 0), _work(one))
        left, cheap = _MOST_REPEATED, list[ToRun]()
        asked = [(costs[each.case.workload], each) for each in again if isinstance(each.case, WorkloadCase)]
        for cost, each in sorted(asked, key=lambda it: it[0]):
            left -= cost + _PROCESS_COST
            cheap += [each] if left >= 0 else ()
        ran += workers.run_all(cheap, is_brief=True)
    return ran, [*to_run, *cheap]


def _work(one: OneRun) -> int:
    counted = one.ending.value.counters if one.ending.value else {}
    return sum(
        count * _HEAVY.get(name, 1)
        for name, count in counted.items()
        if "_" not in name or name in ("plain_reads", "plain_writes", *_HEAVY)
    )


def processes_for(to_run: Sequence[ToRun]) -> int:
    """As many as pay for themselves."""
    return min(-(-len(to_run) // _RUNS_OF_A_PROCESS), os.cpu_count() or 1, _MOST_PROCESSES)
