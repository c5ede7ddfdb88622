"""Which runs of somebody else's kernel are made in a sandbox, and which once more. Judges nothing."""

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evoflash.app.check.cases import WorkloadCase
from evoflash.app.check.confined_runs import ConfinedRuns, ToRun
from evoflash.app.check.one_run import OneRun, lines_to_watch, with_callers
from evoflash.kernels import gxx
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
    is_brief: bool = False  # each case once, no further after runs that failed, and nobody asks for callers


def confinement_for(*, is_foreign: bool, is_unsafe: bool = False) -> Confinement | None:
    """That of a check of a text that evoflash did not make; none of its own kernels. SandboxError."""
    return Confinement(found_boundary(is_unsafe=is_unsafe), _MOST_S) if is_foreign else None


def run_whole(confined: ConfinedRuns, library: Path, to_run: Sequence[ToRun], *, text: str) -> list[OneRun]:
    """The runs that were made; those whose reports have a second place tell its callers, too."""
    processes = processes_for(to_run)
    with confined.workers(library, processes) as workers:
        ran = workers.run_all(to_run)
    watched = {at: lines_to_watch(one.ending.value) for at, one in enumerate(ran) if one.ending.value}
    again = [at for at, lines in watched.items() if lines]
    if not again:
        return ran
    telling = gxx.build(
        text, name=library.stem, tells_callers=True, sees_all=True, boundary=confined.boundary
    )
    asked = [(ran[at].case, replace(ran[at].run, watched=watched[at]), ran[at].inputs) for at in again]
    with confined.workers(telling, min(processes, len(again))) as workers:
        told = workers.run_all(asked)
    for at, second in zip(again, told, strict=False):  # fewer where time ran out
        first = ran[at].ending
        if first.value and second.ending.value:
            ending = replace(first, value=with_callers(first.value, second.ending.value))
            ran[at] = replace(ran[at], ending=ending)
    return ran


# What runs are repeated for, in the counts of `_work` (some 4 million a second).
_MOST_REPEATED = 2_000_000
_HEAVY = {"mma": 32, "wgmma_macs": 1, "wgmma": 0}  # counted once for a warp or a warpgroup


def run_briefly(
    confined: ConfinedRuns, library: Path, to_run: Sequence[ToRun]
) -> tuple[list[OneRun], list[ToRun]]:
    """The runs that were made, and those that were meant to be.

    Every case has one run, in turns by the first and the second way of its plan; a case that costs little has
    all of them. What a run costs is counted, not timed, so that the same are made each time.
    """
    of_case = [list(runs) for _, runs in itertools.groupby(to_run, key=lambda one: id(one[0]))]
    once, again = list[ToRun](), list[list[ToRun]]()
    for at, runs in enumerate(of_case):
        is_alone = isinstance(runs[0][0], WorkloadCase)
        chosen = [runs[(at + 1) % 2 % len(runs)]] if is_alone else runs
        once += chosen
        again.append([run for run in runs if run not in chosen])
    with confined.workers(library, processes_for(to_run)) as workers:
        ran = workers.run_all(once, is_brief=True)
        if len(ran) < len(once):
            return ran, once
        left = _MOST_REPEATED
        costs = {id(one.case): _work(one) for one in ran}
        cheap = list[ToRun]()
        for runs in sorted(filter(None, again), key=lambda runs: costs[id(runs[0][0])]):
            left -= len(runs) * costs[id(runs[0][0])]
            cheap += runs if left >= 0 else ()
        ran += workers.run_all(cheap, is_brief=True)
    place = {id(runs[0][0]): at for at, runs in enumerate(of_case)}
    return sorted(ran, key=lambda one: place[id(one.case)]), [*once, *cheap]


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
