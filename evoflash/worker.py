"""Run work in processes of its own, so that a crash or a hang costs one candidate and not the search.

Covered: illegal addresses and every other CUDA error (the context is never used again), hangs (the process
is killed), host crashes. `IsolatedPool` does this for any function; `GpuWorker` for candidates on the GPU,
with a second process standing by, its context made, so that the candidate after a bad one need not wait.
Not covered: a kernel that brings down the driver or the machine, or writes into another process's memory.
"""

import itertools
import ctypes
import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import TracebackType
from typing import Any, Generic, TypeVar

import numpy as np
import pebble

from evoflash import launcher, validator
from evoflash.baselines import BACKENDS, BaselineAbsentError, SdpaContender, baseline
from evoflash.benchmark import (
    FINAL,
    FULL,
    SHORT,
    Bench,
    Comparison,
    KernelContender,
    beats_physics,
    compare,
    hopeless,
    interleaved,
    measure,
    score,
)
from evoflash.errors import DeviceError
from evoflash.evaluation import Launch, Rung, Status, Timing, Verdict
from evoflash.gpu import GpuSpec
from evoflash.launcher import Arena, KernelHungError, LoadedKernel, MemoryFaultError
from evoflash.problem import CompileKey, Workload
from evoflash.reference import Expected, every_row, expect, sample
from evoflash.trials import AFTER_TIMING, ALL, AT_SIZE, Trial, draw

T = TypeVar("T")
Launches = tuple[tuple[Workload, tuple[Launch, ...]], ...]

# Pebble asks a process to end before it kills it; one that hangs inside C never hears that.
_KILL_AFTER_S = 0.3
_PR_SET_PDEATHSIG = 1
_SMALL_LIMIT_S = 3.0  # one launch on a check workload
_LARGE_LIMIT_S = 20.0  # one launch on a benchmark workload, by the slowest family


@dataclass(frozen=True, slots=True)
class Ending(Generic[T]):
    """How a call in another process ended: with a value, or with a status and a reason of one line."""

    value: T | None
    status: Status = Status.CORRECT
    reason: str = ""


class IsolatedPool:
    """Processes that may die. Every call gets an answer; a dead process is replaced.

    `initializer` runs in each process before its first call. Processes are spawned: functions and arguments
    must be picklable, and a script that makes a pool needs the usual `if __name__ == "__main__"`.
    """

    def __init__(
        self,
        max_workers: int,
        *,
        initializer: Callable[..., None] | None = None,
        initargs: tuple[Any, ...] = (),
    ) -> None:
        pebble.CONSTS.term_timeout = _KILL_AFTER_S
        spawn: Any = multiprocessing.get_context("spawn")
        self._make: Callable[[], pebble.ProcessPool] = lambda: pebble.ProcessPool(
            max_workers, initializer=_begin, initargs=(initializer, initargs), context=spawn
        )
        self._pool = self._make()
        self._waiting: set[Future[Any]] = set()

    def submit(self, function: Callable[..., T], *args: Any, timeout_s: float) -> "Future[Ending[T]]":
        """Call the function in a process. An exception that it raises is raised by the future's result();
        death of the process is an Ending with Status.RUNTIME, no answer in time one with Status.TIMEOUT.
        """
        if not self._pool.active:  # an idle process died and took pebble's pool with it
            self._pool = self._make()
        answer: Future[Ending[T]] = Future()
        self._waiting.add(answer)
        answer.add_done_callback(self._waiting.discard)
        inner = self._pool.schedule(function, args=args, timeout=timeout_s)
        inner.add_done_callback(lambda done: _settle(done, answer, timeout_s))
        return answer

    def close(self) -> None:
        """Kill the processes, whatever they do, and return once they are gone; open calls are cancelled."""
        for answer in list(self._waiting):
            answer.cancel()
        self._pool.stop()  # type: ignore[no-untyped-call]
        self._pool.join()

    def __enter__(self) -> "IsolatedPool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _begin(initializer: Callable[..., None] | None, initargs: tuple[Any, ...]) -> None:
    """Leave Ctrl-C to the parent, and die with it even when it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if initializer is not None:
        initializer(*initargs)


def _settle(done: Any, answer: "Future[Ending[T]]", timeout_s: float) -> None:
    if done.cancelled() or not answer.set_running_or_notify_cancel():
        answer.cancel()
        return
    error = done.exception()
    if error is None:
        answer.set_result(Ending(done.result()))
    elif isinstance(error, TimeoutError):
        answer.set_result(
            Ending(None, Status.TIMEOUT, f"no answer within {timeout_s:g} s; its process was killed")
        )
    elif isinstance(error, pebble.ProcessExpired):
        answer.set_result(Ending(None, Status.RUNTIME, _death(error.exitcode)))
    elif isinstance(error, BrokenProcessPool):
        answer.set_exception(
            DeviceError(
                "a worker process could not be kept running: see its message above; `evoflash doctor`."
            )
        )
    else:
        answer.set_exception(error)


def _death(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        return f"the process died of signal {-exit_code}"
    return f"the process ended with exit code {exit_code}"


@dataclass(frozen=True, slots=True)
class GpuTask:
    """One genome to be checked and timed: cubins by compile key, launches by workload."""

    genome_id: str
    spec: GpuSpec
    cubins: tuple[tuple[CompileKey, str], ...]  # paths
    checks: Launches  # small and odd shapes, cheapest first: the first one is the smoke test
    timed: Launches  # the problem's workloads
    seed: int  # of the run: the same for all its candidates
    incumbent_us: float | None = None  # the best score so far
    limit_s: float = 180.0  # for everything together

    def kernel(self, workload: Workload, launches: tuple[Launch, ...]) -> LoadedKernel:
        """The kernel for one of the workloads, loaded into this process."""
        return LoadedKernel(dict(self.cubins)[workload.compile_key(self.spec.arch)], launches)


@dataclass(frozen=True, slots=True)
class GpuOutcome:
    """How far a task came. `process_lost`: its context cannot be trusted any more."""

    genome_id: str
    status: Status
    rung: Rung
    reason: str = ""
    verdicts: tuple[Verdict, ...] = ()
    timings: tuple[Timing, ...] = ()
    score_us: float | None = None
    process_lost: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FinalTask:
    """Candidates and baselines to be timed in turns; the tasks share their timed workloads."""

    tasks: tuple[GpuTask, ...]
    workloads: tuple[Workload, ...]
    spec: GpuSpec
    seed: int
    baselines: tuple[str, ...] = tuple(BACKENDS)
    limit_s: float = 600.0


@dataclass(frozen=True, slots=True)
class FinalReport:
    """Final timings by genome id or baseline name, and every pair compared on every workload and protocol."""

    timings: Mapping[str, tuple[Timing, ...]]
    comparisons: tuple[Comparison, ...]
    verdicts: Mapping[str, tuple[Verdict, ...]]  # of what was timed, and whether its time is possible
    absent: Mapping[str, str]  # baseline on a workload -> why it was not timed
    environment: Mapping[str, Mapping[str, str]]  # by baseline name


class _RejectedError(Exception):
    """The candidate stops here."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def check(task: GpuTask) -> GpuOutcome:
    """Smoke test and correctness, in a GPU process. `status` is CORRECT when all of it passed."""
    return _guarded(task, GpuOutcome(task.genome_id, Status.CORRECT, Rung.SMOKE), _check)


def time_correct(task: GpuTask, checked: GpuOutcome) -> GpuOutcome:
    """Timing of a task that check() passed, and a last check of what was timed, in a GPU process."""
    return _guarded(task, replace(checked, rung=Rung.TIMING), _time)


def _guarded(
    task: GpuTask, outcome: GpuOutcome, climb: Callable[[GpuTask, GpuOutcome], Iterator[GpuOutcome]]
) -> GpuOutcome:
    # Each rung yields how far it came: what it learnt is kept when the next one fails.
    try:
        for step in climb(task, outcome):
            outcome = step
    except _RejectedError as rejected:
        return replace(outcome, status=rejected.status, reason=str(rejected))
    except MemoryFaultError as fault:
        # What else it overwrote is unknown: guards, inputs and code of this process are not to be trusted.
        return replace(outcome, status=Status.CORRECTNESS, reason=str(fault), process_lost=True)
    except KernelHungError as hung:
        return replace(outcome, status=Status.TIMEOUT, reason=str(hung), process_lost=True)
    except launcher.cuda_errors() as error:
        reason = str(error).strip().splitlines()[0]
        return replace(outcome, status=Status.RUNTIME, reason=reason, process_lost=True)
    return outcome


def _check(task: GpuTask, outcome: GpuOutcome) -> Iterator[GpuOutcome]:
    outcome = replace(outcome, environment=_environment())
    yield outcome
    _smoke(task, *(task.checks or task.timed)[0])
    outcome = replace(outcome, rung=Rung.CORRECTNESS)
    yield outcome
    for names, launches in ((ALL, task.checks), (AT_SIZE, task.timed)):
        for workload, parts in launches:
            verdict = _verdict(task, workload, parts, names=names)
            outcome = replace(outcome, verdicts=(*outcome.verdicts, verdict))
            yield outcome
            if not verdict.passed:
                raise _RejectedError(Status.CORRECTNESS, f"{workload}: {verdict.reason}")


def _smoke(task: GpuTask, workload: Workload, launches: tuple[Launch, ...]) -> None:
    trial, _ = _small(workload, "normal", task.seed)
    output = _runner(task, workload, launches)(trial)
    missing = int(validator.is_non_finite(output.out, workload.dtype).sum())
    if missing:
        raise _RejectedError(
            Status.CORRECTNESS, f"{workload}: {missing} elements of O not written, or not finite"
        )


def _verdict(
    task: GpuTask, workload: Workload, launches: tuple[Launch, ...], *, names: tuple[str, ...]
) -> Verdict:
    run, known = _runner(task, workload, launches), _small if names is ALL else _large
    trials = [known(workload, name, task.seed) for name in names]
    verdict = validator.judge(workload, ((trial, expected, run(trial)) for trial, expected in trials))
    if not verdict.passed:
        return verdict
    ordinary = trials[0][0]
    reason = validator.repeats(run, ordinary)
    if not reason and names is ALL:
        reason = _without_reference(run, ordinary, workload, task.seed)
    return replace(verdict, passed=not reason, reason=reason)


def _without_reference(run: validator.Kernel, trial: Trial, workload: Workload, seed: int) -> str:
    if workload.causal:
        return validator.hides_the_future(run, trial, workload=workload)
    return validator.ignores_order(run, trial, workload=workload, rng=np.random.default_rng(seed))


def _runner(task: GpuTask, workload: Workload, launches: tuple[Launch, ...]) -> validator.Kernel:
    kernel, arena, stream = task.kernel(workload, launches), _arena(workload), launcher.new_stream()
    is_timed = any(workload == timed for timed, _ in task.timed)
    limit_s = _LARGE_LIMIT_S if is_timed else _SMALL_LIMIT_S
    return lambda trial: launcher.run_once(kernel, arena, trial, stream=stream, limit_s=limit_s)


def _time(task: GpuTask, outcome: GpuOutcome) -> Iterator[GpuOutcome]:
    benches = [_bench(workload, task.spec, task.seed) for workload, _ in task.timed]
    contenders = [
        KernelContender(task.genome_id, task.kernel(workload, launches)) for workload, launches in task.timed
    ]
    pairs = list(zip(contenders, benches, strict=True))
    short = [measure(contender, bench, bench.ways[0], effort=SHORT) for contender, bench in pairs]
    bounds = tuple(replace(t, censored=True, median_us=min(samples)) for t, samples in short)
    outcome = replace(outcome, timings=bounds)
    yield outcome
    _check_physics(bounds, task)
    if hopeless([t.median_us for t in bounds], task.incumbent_us):
        score_us = score([t.median_us for t in bounds])
        reason = f"stopped early: at least {score_us:.2f} us against {task.incumbent_us:.2f} us"
        yield replace(outcome, score_us=score_us, reason=reason)
        return
    timings = tuple(
        measure(contender, bench, way, effort=FULL)[0] for contender, bench in pairs for way in bench.ways
    )
    outcome = replace(outcome, timings=timings)
    yield outcome
    _check_physics(timings, task)
    for contender, bench in pairs:
        verdict = _verdict_of_timed(contender, bench, seed=task.seed)
        outcome = replace(outcome, verdicts=(*outcome.verdicts, verdict))
        if not verdict.passed:
            yield outcome
            raise _RejectedError(Status.CORRECTNESS, f"{bench.workload}, after timing: {verdict.reason}")
    ranked = {bench.ways[0].protocol for bench in benches}
    score_us = score([t.median_us for t in timings if t.protocol in ranked])
    yield replace(outcome, rung=Rung.DONE, score_us=score_us)


def _check_physics(timings: tuple[Timing, ...], task: GpuTask) -> None:
    workloads = {str(workload): workload for workload, _ in task.timed}
    for timing in timings:
        if reason := beats_physics(timing, workloads[timing.workload], task.spec):
            raise _RejectedError(Status.CORRECTNESS, reason)


def _verdict_of_timed(contender: KernelContender | SdpaContender, bench: Bench, *, seed: int) -> Verdict:
    """Judge a replay of the timed graph after its first input set was overwritten with inputs never seen."""
    trial, expected = _large(bench.workload, AFTER_TIMING, seed)
    way, arena = bench.ways[0], bench.arenas[0]
    replay = contender.graph(bench, bench.order(way, launches=len(bench.arenas)))
    before = arena.inputs
    arena.load(trial)
    arena.poison(bench.stream)
    if isinstance(contender, SdpaContender):
        contender.refresh()
    replay()
    launcher.wait(bench.stream, limit_s=_LARGE_LIMIT_S)
    output = contender.output() if isinstance(contender, SdpaContender) else arena.output(want_lse=True)
    for each in bench.arenas:
        each.check_memory()
    if before is not None:
        arena.load(before)
    return validator.judge(bench.workload, [(trial, expected, output)])


def _environment() -> dict[str, str]:
    gpu = launcher.present_gpu()
    return {"gpu": gpu.device_name, "driver_cuda": gpu.driver, "cupy": launcher.cupy().__version__}


# What a process keeps between candidates. A large trial is up to 400 MB of host memory: few are kept.
@lru_cache(maxsize=512)
def _small(workload: Workload, name: str, seed: int) -> tuple[Trial, Expected]:
    trial = draw(name, workload, seed=seed)
    return trial, expect(workload, trial.q, trial.k, trial.v, where=every_row(workload))


@lru_cache(maxsize=12)
def _large(workload: Workload, name: str, seed: int) -> tuple[Trial, Expected]:
    trial = draw(name, workload, seed=seed)
    where = sample(workload, np.random.default_rng([seed, len(name)]))
    return trial, expect(workload, trial.q, trial.k, trial.v, where=where)


@lru_cache(maxsize=64)
def _arena(workload: Workload) -> Arena:
    return Arena(workload, rng=np.random.default_rng())


@lru_cache(maxsize=4)
def _bench(workload: Workload, spec: GpuSpec, seed: int) -> Bench:
    return Bench(workload, spec=spec, seed=seed)


def run_finals(task: FinalTask) -> Ending[FinalReport]:
    """Time everything in turns, in a GPU process that did nothing else before."""
    try:
        return Ending(_finals(task))
    except KernelHungError as hung:
        return Ending(None, Status.TIMEOUT, f"a finalist {hung}")
    except launcher.cuda_errors() as error:
        return Ending(None, Status.RUNTIME, str(error).strip().splitlines()[0])


def _finals(task: FinalTask) -> FinalReport:
    timings: dict[str, list[Timing]] = {}
    verdicts: dict[str, list[Verdict]] = {}
    absent: dict[str, str] = {}
    environment: dict[str, dict[str, str]] = {}
    comparisons: list[Comparison] = []
    rng = np.random.default_rng(task.seed)
    for workload in task.workloads:
        bench = Bench(workload, spec=task.spec, seed=task.seed)
        libraries = _libraries(task, bench, absent)
        environment |= {library.name: library.environment for library in libraries}
        contenders: list[KernelContender | SdpaContender] = [*_finalists(task, workload), *libraries]
        for way in bench.ways:
            samples, found = interleaved(contenders, bench, way, effort=FINAL, rng=rng)
            for name, timing in found.items():
                timings.setdefault(name, []).append(timing)
            comparisons += [
                compare(samples, a, b, workload=str(workload), protocol=f"final-{way.protocol}", rng=rng)
                for a, b in itertools.combinations(samples, 2)
            ]
        for contender in contenders:
            verdict = _verdict_of_timed(contender, bench, seed=task.seed)
            latest = timings[contender.name][-len(bench.ways) :]
            wonders = [reason for t in latest if (reason := beats_physics(t, workload, task.spec))]
            if wonders:
                verdict = replace(verdict, passed=False, reason=wonders[0])
            verdicts.setdefault(contender.name, []).append(verdict)
    return FinalReport(
        timings={name: tuple(found) for name, found in timings.items()},
        comparisons=tuple(comparisons),
        verdicts={name: tuple(found) for name, found in verdicts.items()},
        absent=absent,
        environment=environment,
    )


def _finalists(task: FinalTask, workload: Workload) -> list[KernelContender]:
    return [
        KernelContender(each.genome_id, each.kernel(workload, dict(each.timed)[workload]))
        for each in task.tasks
    ]


def _libraries(task: FinalTask, bench: Bench, absent: dict[str, str]) -> list[SdpaContender]:
    found = []
    for name in task.baselines:
        try:
            found.append(baseline(name, bench))
        except BaselineAbsentError as reason:
            absent[f"{name} on {bench.workload}"] = str(reason)
    return found


class GpuWorker:
    """The GPU process, its stand-by, and the queue before them. Tasks run one at a time, in order."""

    def __init__(self) -> None:
        launcher.present_gpu()  # a machine without a GPU is said here, not in a process
        self._queue = ThreadPoolExecutor(max_workers=1, thread_name_prefix="evoflash-gpu")
        self._active, self._ready = _warm_pool()
        self._standby, self._standby_ready = _warm_pool()

    def submit(self, task: GpuTask) -> "Future[GpuOutcome]":
        """The task's outcome, whatever the kernel does. Raises in result() only for a broken machine."""
        return self._queue.submit(self._evaluate, task)

    def finalists(self, task: FinalTask) -> "Future[Ending[FinalReport]]":
        """Long timings in turns in a fresh process; with no tasks, the baselines alone."""
        return self._queue.submit(self._finals, task)

    def _evaluate(self, task: GpuTask) -> GpuOutcome:
        checked = self._call(task, Rung.SMOKE, check, task)
        if checked.status is not Status.CORRECT or not task.timed:
            return checked
        self._standby_ready.result()  # a process that is making its context would disturb the clock
        return self._call(task, Rung.TIMING, time_correct, task, checked, verdicts=checked.verdicts)

    def _call(
        self,
        task: GpuTask,
        rung: Rung,
        function: Callable[..., GpuOutcome],
        *args: Any,
        verdicts: tuple[Verdict, ...] = (),
    ) -> GpuOutcome:
        self._ready.result()
        ending = self._active.submit(function, *args, timeout_s=task.limit_s).result()
        outcome = ending.value or GpuOutcome(
            task.genome_id, ending.status, rung, ending.reason, verdicts, process_lost=True
        )
        if outcome.process_lost:
            self._replace()
        return outcome

    def _finals(self, task: FinalTask) -> Ending[FinalReport]:
        self._replace()
        self._ready.result()
        self._standby_ready.result()
        ending = self._active.submit(run_finals, task, timeout_s=task.limit_s).result()
        if ending.value is None or ending.value.value is None:
            self._replace()
        return ending.value or Ending(None, ending.status, ending.reason)

    def _replace(self) -> None:
        # Closed first, and waited for: what hangs on the GPU would slow the next candidate.
        self._active.close()
        self._active, self._ready = self._standby, self._standby_ready
        self._standby, self._standby_ready = _warm_pool()

    def close(self) -> None:
        """Kill both processes; tasks that have not run are cancelled."""
        self._queue.shutdown(wait=False, cancel_futures=True)
        self._active.close()
        self._standby.close()

    def __enter__(self) -> "GpuWorker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _warm_pool() -> "tuple[IsolatedPool, Future[Ending[None]]]":
    pool = IsolatedPool(1)
    return pool, pool.submit(launcher.warm_up, timeout_s=120)
