"""Two entrants compared in a GPU process: both checked, timed in pairs in every way, and checked again.

Decides nothing; what goes wrong with an entrant is data (a failure of one line), never an exception.
"""

from dataclasses import dataclass

import numpy as np

from evoflash.baselines import BaselineAbsentError, BaselineFailedError, LibraryContender, baseline
from evoflash.commands.compare.kernels import Entrant
from evoflash.cuda import launcher
from evoflash.cuda.arena import MemoryFaultError
from evoflash.cuda.launcher import KernelHungError, LaunchRefusedError
from evoflash.evaluation import Status, Timing
from evoflash.gpu import GpuSpec
from evoflash.gpu_process.checks import of_timed
from evoflash.gpu_process.rungs import check
from evoflash.operation import Workload
from evoflash.problem import Problem
from evoflash.timing.benchmark import Bench, KernelContender, can_be_timed
from evoflash.timing.comparison import Comparison, beats_physics
from evoflash.timing.intervals import MINIMAL_EFFECT
from evoflash.timing.protocols import CALL, Pace, Way
from evoflash.timing.sequential_test import Duel, duel

Rival = KernelContender | LibraryContender


@dataclass(frozen=True, slots=True)
class Contest:
    """Two entrants, on every workload of a problem."""

    entrants: tuple[Entrant, ...]
    problem: Problem
    spec: GpuSpec
    seed: int
    noise: float = MINIMAL_EFFECT


@dataclass(frozen=True, slots=True)
class Result:
    """One workload timed in one way: the first entrant over the second, and both their times."""

    comparison: Comparison
    timings: tuple[Timing, Timing]


@dataclass(frozen=True, slots=True)
class Outcome:
    """All results, or the failure that ended the contest; notes say what was left out."""

    results: tuple[Result, ...] = ()
    failure: str = ""
    notes: tuple[str, ...] = ()


class _FailedError(Exception):
    """An entrant cannot be compared; the message is the reason."""


def hold(contest: Contest) -> Outcome:
    """Check, time in pairs and check what was timed, in a GPU process."""
    try:
        for entrant in contest.entrants:
            _check(entrant)
        duels = [each for workload in contest.problem.workloads for each in _on(workload, contest)]
    except (_FailedError, BaselineAbsentError, BaselineFailedError, MemoryFaultError) as failed:
        return Outcome(failure=str(failed))
    except (KernelHungError, LaunchRefusedError) as failed:
        return Outcome(failure=f"a kernel {failed}")
    except launcher.cuda_errors() as error:
        return Outcome(failure=str(error).strip().splitlines()[0])
    results = tuple(Result(each.comparison, each.timings) for each in duels)
    return Outcome(results, notes=_notes(results, contest))


def _check(entrant: Entrant) -> None:
    """Smoke test, small and odd shapes, and the problem's own. Baselines are checked by what was timed."""
    if entrant.task is None:
        return
    outcome = check(entrant.task)
    if outcome.status is not Status.CORRECT:
        raise _FailedError(f"{entrant.name} fails at {outcome.rung} ({outcome.status}): {outcome.reason}")


def _on(workload: Workload, contest: Contest) -> list[Duel]:
    bench = Bench(workload, spec=contest.spec, seed=contest.seed)
    rivals = [_contender(entrant, bench) for entrant in contest.entrants]
    rng = np.random.default_rng(contest.seed)
    duels = [
        duel(rivals[0], rivals[1], bench, way, rng=rng, noise=contest.noise)
        for way in ways(bench)
        if all(can_be_timed(rival, way) for rival in rivals)
    ]
    for which, rival in enumerate(rivals):
        _check_timed(rival, bench, [each.timings[which] for each in duels], contest)
    return duels


def ways(bench: Bench) -> tuple[Way, ...]:
    """As finals time it; and single calls, where the host's part is not lost in the kernel's."""
    return (*bench.ways, CALL) if bench.ways[0].pace is Pace.STEADY else bench.ways


def _contender(entrant: Entrant, bench: Bench) -> Rival:
    if entrant.task is None:
        try:
            return baseline(entrant.name.partition(" (")[0], bench)
        except BaselineAbsentError as reason:
            raise _FailedError(f"{entrant.name} cannot be timed on {bench.workload}: {reason}") from None
    launches = dict(entrant.task.timed)[bench.workload]
    return KernelContender(entrant.name, entrant.task.kernel(bench.workload, launches))


def _check_timed(rival: Rival, bench: Bench, timings: list[Timing], contest: Contest) -> None:
    for timing in timings:
        if wonder := beats_physics(timing, bench.workload, contest.spec):
            raise _FailedError(f"{rival.name}: {wonder}")
    tasks = (entrant.task for entrant in contest.entrants if entrant.name == rival.name)
    exact = any(task.is_deterministic for task in tasks if task is not None)
    timed_us = timings[0].median_us
    verdict = of_timed(rival, bench, seed=contest.seed, timed_us=timed_us, is_deterministic=exact)
    if not verdict.passed:
        raise _FailedError(f"{rival.name} is wrong as it was timed: {verdict.reason}")


def _notes(results: tuple[Result, ...], contest: Contest) -> tuple[str, ...]:
    protocols = {result.comparison.protocol for result in results}
    short = any(protocol.endswith("-cold") for protocol in protocols)
    if not short or any(protocol.endswith("-call") for protocol in protocols):
        return ()
    libraries = [entrant.name for entrant in contest.entrants if entrant.task is None]
    return (f"no single calls: {' and '.join(libraries)} can only be timed as a graph",)
