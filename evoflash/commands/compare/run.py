"""Two kernels compared in a GPU process: checked, timed in pairs by every protocol, and checked again.

Decides nothing. What goes wrong with a contender is data (a failure of one line) and never an exception.
"""

from dataclasses import dataclass

import numpy as np

from evoflash.baselines import BaselineAbsentError, BaselineFailedError, LibraryContender, baseline
from evoflash.commands.compare.kernels import Contender
from evoflash.cuda import launcher
from evoflash.cuda.arena import MemoryFaultError
from evoflash.cuda.launcher import KernelHungError, LaunchRefusedError
from evoflash.evaluation import Status, Timing
from evoflash.gpu import GpuSpec
from evoflash.gpu_process.after_timing import of_timed
from evoflash.gpu_process.rungs import check
from evoflash.operation import Workload
from evoflash.problem import Problem
from evoflash.timing.benchmark import Bench, KernelContender, can_be_timed
from evoflash.timing.comparison import beats_physics
from evoflash.timing.intervals import MINIMAL_EFFECT
from evoflash.timing.pair import Comparison
from evoflash.timing.protocols import CALL, Pace, TimingProtocol
from evoflash.timing.sequential_test import SequentialTest, run_sequential_test

OnDevice = KernelContender | LibraryContender  # a contender as a bench times it


@dataclass(frozen=True, slots=True)
class ComparisonRun:
    """What is to be compared: two contenders, on every workload of a problem."""

    contenders: tuple[Contender, ...]
    problem: Problem
    spec: GpuSpec
    seed: int
    noise: float = MINIMAL_EFFECT


@dataclass(frozen=True, slots=True)
class Result:
    """One workload timed by one protocol: the first contender over the second, and the times of both."""

    comparison: Comparison
    timings: tuple[Timing, Timing]


@dataclass(frozen=True, slots=True)
class Outcome:
    """All results, or the failure that ended the comparison; the notes say what was left out."""

    results: tuple[Result, ...] = ()
    failure: str = ""
    notes: tuple[str, ...] = ()


class _FailedError(Exception):
    """A contender cannot be compared; the message is the reason."""


def compare_kernels(run: ComparisonRun) -> Outcome:
    """Check both, time them in pairs, and check what was timed; to be called in a GPU process."""
    try:
        for contender in run.contenders:
            _check(contender)
        tests = [test for workload in run.problem.workloads for test in _timed_on(workload, run)]
    except (_FailedError, BaselineAbsentError, BaselineFailedError, MemoryFaultError) as failed:
        return Outcome(failure=str(failed))
    except (KernelHungError, LaunchRefusedError) as failed:
        return Outcome(failure=f"a kernel {failed}")
    except launcher.cuda_errors() as error:
        return Outcome(failure=str(error).strip().splitlines()[0])
    results = tuple(Result(test.comparison, test.timings) for test in tests)
    return Outcome(results, notes=_notes(results, run))


def _check(contender: Contender) -> None:
    """Smoke test, small and odd shapes, the problem's own. A baseline is checked only as it was timed."""
    if contender.task is None:
        return
    outcome = check(contender.task)
    if outcome.status is not Status.CORRECT:
        raise _FailedError(f"{contender.name} fails at {outcome.rung} ({outcome.status}): {outcome.reason}")


def _timed_on(workload: Workload, run: ComparisonRun) -> list[SequentialTest]:
    bench = Bench(workload, spec=run.spec, seed=run.seed)
    both = [_on_device(contender, bench) for contender in run.contenders]
    rng = np.random.default_rng(run.seed)
    tests = [
        run_sequential_test(both[0], both[1], bench, protocol, rng=rng, noise=run.noise)
        for protocol in protocols(bench)
        if all(can_be_timed(contender, protocol) for contender in both)
    ]
    for which, contender in enumerate(both):
        _check_timed(contender, bench, [test.timings[which] for test in tests], run)
    return tests


def protocols(bench: Bench) -> tuple[TimingProtocol, ...]:
    """As the finals time it, and by single calls where the host's share of the time can be seen."""
    return (*bench.protocols, CALL) if bench.protocols[0].pace is Pace.STEADY else bench.protocols


def _on_device(contender: Contender, bench: Bench) -> OnDevice:
    if contender.task is None:
        try:
            return baseline(contender.name.partition(" (")[0], bench)
        except BaselineAbsentError as reason:
            raise _FailedError(f"{contender.name} cannot be timed on {bench.workload}: {reason}") from None
    launches = dict(contender.task.timed)[bench.workload]
    return KernelContender(contender.name, contender.task.kernel(bench.workload, launches))


def _check_timed(timed: OnDevice, bench: Bench, timings: list[Timing], run: ComparisonRun) -> None:
    for timing in timings:
        if violation := beats_physics(timing, bench.workload, run.spec):
            raise _FailedError(f"{timed.name}: {violation}")
    tasks = (contender.task for contender in run.contenders if contender.name == timed.name)
    exact = any(task.is_deterministic for task in tasks if task is not None)
    timed_us = timings[0].median_us
    verdict = of_timed(timed, bench, seed=run.seed, timed_us=timed_us, is_deterministic=exact)
    if not verdict.passed:
        raise _FailedError(f"{timed.name} is wrong as it was timed: {verdict.reason}")


def _notes(results: tuple[Result, ...], run: ComparisonRun) -> tuple[str, ...]:
    protocols = {result.comparison.protocol for result in results}
    short = any(protocol.endswith("-cold") for protocol in protocols)
    if not short or any(protocol.endswith("-call") for protocol in protocols):
        return ()
    libraries = [contender.name for contender in run.contenders if contender.task is None]
    return (f"no single calls: {' and '.join(libraries)} can only be timed as a graph",)
