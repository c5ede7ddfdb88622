"""The rungs that need the GPU, in a GPU process: smoke test, correctness, timing of one genome.

What is run and judged is in checks.py; here is which comes when, and what follows. A candidate that fails
is data (a GpuOutcome): nothing that a kernel does is raised here. What kills the process or never returns is
for the worker that holds the process.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from evoflash.cuda import launcher
from evoflash.cuda.arena import MemoryFaultError
from evoflash.cuda.launcher import KernelHungError, LaunchRefusedError, LoadedKernel
from evoflash.evaluation import Build, Launch, Rung, Status, Timing, Verdict, score
from evoflash.gpu import GpuSpec
from evoflash.gpu_process import cache, rung_times
from evoflash.gpu_process import checks as verdicts
from evoflash.gpu_process.checks import LARGE_LIMIT_S, SMALL_LIMIT_S, SMOKE_LIMIT_S, Subject
from evoflash.operation import CompileKey, Workload
from evoflash.timing.benchmark import Bench, KernelContender, measure
from evoflash.timing.comparison import beats_physics, hopeless
from evoflash.timing.protocols import ONE, SHORT, Pace, StoppingRule, protocols_of, rules_of

Launcher = Callable[[Workload], tuple[Launch, ...]]
Launches = tuple[tuple[Workload, tuple[Launch, ...]], ...]

_FAR_BEHIND = 0.25  # one launch after the GPU idled: over 1.25 times the incumbent's time is no noise


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
    is_deterministic: bool = True  # two runs must agree in every bit, because the family uses no atomics
    limit_s: float = 180.0  # for everything together

    def kernel(self, workload: Workload, launches: tuple[Launch, ...]) -> LoadedKernel:
        """The kernel for one of the workloads, loaded into this process."""
        return LoadedKernel(dict(self.cubins)[workload.compile_key(self.spec.arch)], launches)


def task_of(
    name: str,
    spec: GpuSpec,
    builds: Iterable[Build],
    launcher: Launcher,
    *,
    checks: Iterable[Workload],
    timed: Iterable[Workload],
    seed: int,
    incumbent_us: float | None = None,
    is_deterministic: bool = True,
) -> GpuTask:
    """The task of one kernel: a build for each compile key of the workloads, launched as `launcher` says."""
    return GpuTask(
        genome_id=name,
        spec=spec,
        cubins=tuple((build.compile_key, build.cubin_path) for build in builds),
        checks=launches_on(checks, launcher),
        timed=launches_on(timed, launcher),
        seed=seed,
        incumbent_us=incumbent_us,
        is_deterministic=is_deterministic,
    )


def launches_on(workloads: Iterable[Workload], launcher: Launcher) -> Launches:
    """What is launched for each workload, in their order."""
    return tuple((workload, launcher(workload)) for workload in workloads)


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
    # Each rung yields its outcome so far, which is kept when the next one fails.
    spent: defaultdict[Rung, float] = defaultdict(float)
    since = time.monotonic()
    try:
        for step in climb(task, outcome):
            now = time.monotonic()
            spent[outcome.rung] += now - since
            outcome, since = step, now
    except (_RejectedError, LaunchRefusedError, MemoryFaultError, KernelHungError) as error:
        spent[outcome.rung] += time.monotonic() - since
        return _ended(_charged(outcome, spent), error)
    except launcher.cuda_errors() as error:
        spent[outcome.rung] += time.monotonic() - since
        return _ended(_charged(outcome, spent), error)
    return _charged(outcome, spent)


def _charged(outcome: GpuOutcome, spent: Mapping[Rung, float]) -> GpuOutcome:
    return replace(outcome, environment=rung_times.charged(outcome.environment, spent))


def _ended(outcome: GpuOutcome, error: Exception) -> GpuOutcome:
    reason = str(error).strip().splitlines()[0]
    match error:
        case _RejectedError():
            return replace(outcome, status=error.status, reason=str(error))
        case LaunchRefusedError():
            return replace(outcome, status=Status.CONSTRAINTS, reason=str(error))
        case MemoryFaultError():
            # What else it overwrote is unknown: guards, inputs and code of this process are not trusted.
            return replace(outcome, status=Status.CORRECTNESS, reason=reason, process_lost=True)
        case KernelHungError():
            return replace(outcome, status=Status.TIMEOUT, reason=reason, process_lost=True)
        case _:
            return replace(outcome, status=Status.RUNTIME, reason=reason, process_lost=True)


def _check(task: GpuTask, outcome: GpuOutcome) -> Iterator[GpuOutcome]:
    outcome = replace(outcome, environment=_environment())
    yield outcome
    workload, parts = (task.checks or task.timed)[0]
    first = _subject(task, workload, parts)
    if task.checks:  # the smallest of them: no healthy kernel takes long there, and a hang costs its limit
        first = replace(first, limit_s=SMOKE_LIMIT_S)
    if missing := verdicts.smoke(first):
        raise _RejectedError(Status.CORRECTNESS, f"{workload}: {missing}")
    outcome = replace(outcome, rung=Rung.CORRECTNESS)
    yield outcome
    for verdict in verdicts.on_check_shapes([_subject(task, *each) for each in task.checks]):
        outcome = _judged(outcome, verdict)
        yield outcome
        _stop_if_wrong(outcome)
    yield from _check_at_size(task, outcome)


def _check_at_size(task: GpuTask, outcome: GpuOutcome) -> Iterator[GpuOutcome]:
    for workload, parts in task.timed:
        subject = _subject(task, workload, parts)
        if _is_worth_a_look(task, workload):  # a kernel that is far behind is not checked any further
            verdict, took_us = verdicts.first_look(subject)
            bound = _hopeless_bound(task, workload, parts, took_us) if verdict.passed else None
            if bound is not None:
                yield _stopped_early(_judged(outcome, verdict), (bound,), task)
                return
        outcome = _judged(outcome, verdicts.at_size(subject))
        yield outcome
        _stop_if_wrong(outcome)


def _judged(outcome: GpuOutcome, verdict: Verdict) -> GpuOutcome:
    return replace(outcome, verdicts=(*outcome.verdicts, verdict))


def _stop_if_wrong(outcome: GpuOutcome) -> None:
    last = outcome.verdicts[-1]
    if not last.passed:
        raise _RejectedError(Status.CORRECTNESS, f"{last.workload}: {last.reason}")


def _hopeless_bound(
    task: GpuTask, workload: Workload, launches: tuple[Launch, ...], took_us: float
) -> Timing | None:
    """A lower bound far behind the incumbent: that one launch, or one sample; None when neither is."""
    if hopeless([took_us], task.incumbent_us, margin=_FAR_BEHIND):
        return Timing(str(workload), "first-look", took_us, took_us, took_us, n=1, censored=True)
    contender = KernelContender(task.genome_id, task.kernel(workload, launches))
    (bound,) = _lower_bounds([(contender, cache.bench(workload, task.spec, task.seed))], rule=ONE)
    return bound if hopeless([bound.median_us], task.incumbent_us) else None


def _stopped_early(outcome: GpuOutcome, bounds: tuple[Timing, ...], task: GpuTask) -> GpuOutcome:
    score_us = score([t.median_us for t in bounds])
    reason = f"stopped early: at least {score_us:.2f} us against {task.incumbent_us:.2f} us"
    return replace(outcome, timings=bounds, score_us=score_us, reason=reason)


def _is_worth_a_look(task: GpuTask, workload: Workload) -> bool:
    # Only when launches are long: the single time of a short one is mostly latency, and its checks are cheap.
    is_long = protocols_of(workload, task.spec)[0].pace is Pace.BOOST
    return is_long and len(task.timed) == 1 and task.incumbent_us is not None


def _subject(task: GpuTask, workload: Workload, launches: tuple[Launch, ...]) -> Subject:
    is_timed = any(workload == timed for timed, _ in task.timed)
    limit_s = LARGE_LIMIT_S if is_timed else SMALL_LIMIT_S
    return Subject(task.kernel(workload, launches), workload, task.seed, limit_s, task.is_deterministic)


def _time(task: GpuTask, outcome: GpuOutcome) -> Iterator[GpuOutcome]:
    pairs = _contenders(task)
    # Else a first look has shown that it is not hopeless.
    if not _is_worth_a_look(task, task.timed[0][0]):
        bounds = _lower_bounds(pairs, rule=SHORT)
        outcome = replace(outcome, timings=bounds)
        yield outcome
        _check_physics(bounds, task)
        if hopeless([t.median_us for t in bounds], task.incumbent_us):
            yield _stopped_early(outcome, bounds, task)
            return
    timings = tuple(
        measure(contender, bench, protocol, rule=rule)[0]
        for contender, bench in pairs
        for protocol, rule in rules_of(bench.protocols)
    )
    outcome = replace(outcome, timings=timings)
    yield outcome
    _check_physics(timings, task)
    for contender, bench in pairs:
        timed_us, exact = _timed_us(bench, timings), task.is_deterministic
        verdict = verdicts.of_timed(
            contender, bench, seed=task.seed, timed_us=timed_us, is_deterministic=exact
        )
        outcome = replace(outcome, verdicts=(*outcome.verdicts, verdict))
        if not verdict.passed:
            yield outcome
            raise _RejectedError(Status.CORRECTNESS, f"{bench.workload}, after timing: {verdict.reason}")
    ranked = {bench.protocols[0].name for _, bench in pairs}
    score_us = score([t.median_us for t in timings if t.protocol in ranked])
    yield replace(outcome, rung=Rung.DONE, score_us=score_us)


def _timed_us(bench: Bench, timings: tuple[Timing, ...]) -> float:
    ranked = str(bench.workload), bench.protocols[0].name
    return next(t.median_us for t in timings if (t.workload, t.protocol) == ranked)


def _contenders(task: GpuTask) -> list[tuple[KernelContender, Bench]]:
    benches = [cache.bench(workload, task.spec, task.seed) for workload, _ in task.timed]
    contenders = [
        KernelContender(task.genome_id, task.kernel(workload, launches)) for workload, launches in task.timed
    ]
    return list(zip(contenders, benches, strict=True))


def _lower_bounds(pairs: list[tuple[KernelContender, Bench]], *, rule: StoppingRule) -> tuple[Timing, ...]:
    """The shortest of a few samples on each workload, marked as censored."""
    short = [measure(contender, bench, bench.protocols[0], rule=rule) for contender, bench in pairs]
    return tuple(replace(t, censored=True, median_us=min(samples)) for t, samples in short)


def _check_physics(timings: tuple[Timing, ...], task: GpuTask) -> None:
    workloads = {str(workload): workload for workload, _ in task.timed}
    for timing in timings:
        if reason := beats_physics(timing, workloads[timing.workload], task.spec):
            raise _RejectedError(Status.CORRECTNESS, reason)


def _environment() -> dict[str, str]:
    gpu = launcher.present_gpu()
    return {"gpu": gpu.device_name, "driver_cuda": gpu.driver, "cupy": launcher.cupy().__version__}
