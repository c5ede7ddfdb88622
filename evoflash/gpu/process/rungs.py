"""The rungs of the ladder that need the GPU, for one genome: smoke test, correctness, timing.

What is run and judged is in checks.py; here is which comes when, and what follows. A candidate that fails is
data (a GpuOutcome): nothing that a kernel does is raised here. What kills the process or never returns is for
the worker that holds it.

`screen` is the short way, for candidates that are too slow to be worth every check: smoke test, one checked
launch on each timed workload, a short timing in turns with a proven kernel. What could still be among the
best leaves it unproven, with status CORRECT, for the whole ladder. All else ends as SCREENED. Nothing is let
off because of a screen: whatever wins has passed every rung.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from evoflash.evaluation import Build, Rung, Status, Timing, score
from evoflash.gpu import launcher
from evoflash.gpu.launcher import LoadedKernel, alone
from evoflash.gpu.process import cache
from evoflash.gpu.process import checks as verdicts
from evoflash.gpu.process.checks import LARGE_LIMIT_S, SMALL_LIMIT_S, SMOKE_LIMIT_S, CheckSubject
from evoflash.gpu.process.judged_replays import judge_replay
from evoflash.gpu.process.outcome import GpuOutcome, RejectedError, climb_rungs, stop_if_wrong, with_verdict
from evoflash.gpu.timing.benchmark import Bench, KernelContender, gpu_uuid, measure
from evoflash.gpu.timing.paired import RatioInterval, beats_physics
from evoflash.gpu.timing.protocols import RELATIVE, RELATIVE_EFFORT, SCREEN_EFFORT, SCREENED, rules_of
from evoflash.gpu.timing.relative import Beside, anchor_note, gpu_note, relative_time
from evoflash.launch import LaunchConfig
from evoflash.specs import GpuSpec
from evoflash.workload import CompileKey, Workload

Launcher = Callable[[Workload], tuple[LaunchConfig, ...]]
Launches = tuple[tuple[Workload, tuple[LaunchConfig, ...]], ...]

_SETTLED = 1.006  # the ends of an interval of times that are good enough: finals time the best again


@dataclass(frozen=True, slots=True)
class GpuTask:
    """One genome to be checked and timed: cubins by compile key, launches by workload."""

    genome_id: str
    spec: GpuSpec
    cubins: tuple[tuple[CompileKey, str], ...]  # paths
    checks: Launches  # small and odd shapes, cheapest first: the first one is the smoke test
    timed: Launches  # the problem's workloads
    seed: int  # of the run: the same for all its candidates
    is_deterministic: bool = True  # two runs must agree in every bit, because the family uses no atomics
    anchor: "Anchor | None" = None  # a proven kernel of the same problem, once there is one
    rival_us: float | None = None  # the slowest score that is still of interest
    limit_s: float = 180.0  # for everything together

    def kernel(self, workload: Workload, launches: tuple[LaunchConfig, ...]) -> LoadedKernel:
        """The kernel for one of the workloads, loaded into this process."""
        return LoadedKernel(dict(self.cubins)[workload.compile_key(self.spec.arch)], launches)


@dataclass(frozen=True, slots=True)
class Anchor:
    """A kernel that passed every check, for others to be timed beside it, and its times on the workloads."""

    task: GpuTask
    times_us: tuple[float, ...]  # in the order of its task's timed workloads


def task_of(
    name: str,
    spec: GpuSpec,
    builds: Iterable[Build],
    launcher: Launcher,
    *,
    checks: Iterable[Workload],
    timed: Iterable[Workload],
    seed: int,
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
        is_deterministic=is_deterministic,
    )


def launches_on(workloads: Iterable[Workload], launcher: Launcher) -> Launches:
    """What is launched for each workload, in their order."""
    return tuple((workload, launcher(workload)) for workload in workloads)


def check_task(task: GpuTask) -> GpuOutcome:
    """Smoke test and correctness, in a GPU process. `status` is CORRECT when all of it passed."""
    return climb_rungs(task, GpuOutcome(task.genome_id, Status.CORRECT, Rung.SMOKE), _check)


def time_correct(task: GpuTask, checked: GpuOutcome) -> GpuOutcome:
    """Timing of a task that check() passed, and a last check of what was timed, in a GPU process."""
    return climb_rungs(task, replace(checked, rung=Rung.TIMING), _time)


def smoke(task: GpuTask) -> None:
    """A first launch, on the smallest check shape: no healthy kernel takes long there, and a hang costs its
    limit. Raises RejectedError.
    """
    workload, parts = (task.checks or task.timed)[0]
    first = subject_of(task, workload, parts)
    if task.checks:
        first = replace(first, limit_s=SMOKE_LIMIT_S)
    if missing := verdicts.smoke(first):
        raise RejectedError(Status.CORRECTNESS, f"{workload}: {missing}")


def _check(task: GpuTask, outcome: GpuOutcome) -> Iterator[GpuOutcome]:
    outcome = replace(outcome, environment={**outcome.environment, **environment()})
    yield outcome
    smoke(task)
    outcome = replace(outcome, rung=Rung.CORRECTNESS)
    yield outcome
    for verdict in verdicts.on_check_shapes([subject_of(task, *each) for each in task.checks]):
        outcome = with_verdict(outcome, verdict)
        yield outcome
        stop_if_wrong(outcome)
    for workload, parts in task.timed:
        outcome = with_verdict(outcome, verdicts.at_size(subject_of(task, workload, parts)))
        yield outcome
        stop_if_wrong(outcome)


def subject_of(task: GpuTask, workload: Workload, launches: tuple[LaunchConfig, ...]) -> CheckSubject:
    """The task's kernel on one of its workloads, loaded."""
    is_timed = any(workload == timed for timed, _ in task.timed)
    limit_s = LARGE_LIMIT_S if is_timed else SMALL_LIMIT_S
    return CheckSubject(task.kernel(workload, launches), workload, task.seed, limit_s, task.is_deterministic)


def _time(task: GpuTask, outcome: GpuOutcome) -> Iterator[GpuOutcome]:
    pairs = contenders_of(task)
    timings, ranked, noted = _timings(task, pairs)
    outcome = replace(outcome, timings=timings, environment={**outcome.environment, **noted})
    yield outcome
    check_physics(timings, task)
    for contender, bench in pairs:
        # The fastest tenth: beside another kernel, which writes the same output, one that rests where it
        # finds its own result rests in some of the samples alone.
        timed_us = next(t.p10_us or t.median_us for t in ranked if t.workload == str(bench.workload))
        verdict = judge_replay(contender, bench, seed=task.seed, timed_us=timed_us)
        outcome = with_verdict(outcome, verdict)
        if not verdict.passed:
            yield outcome
            raise RejectedError(Status.CORRECTNESS, f"{bench.workload}, after timing: {verdict.reason}")
    yield replace(outcome, rung=Rung.DONE, score_us=score([t.median_us for t in ranked]))


def _timings(
    task: GpuTask, pairs: list[tuple[KernelContender, Bench]]
) -> tuple[tuple[Timing, ...], tuple[Timing, ...], dict[str, str]]:
    """All timings, those of them that rank the candidate, beside the anchor once there is one, and what is
    noted of the anchor.
    """
    if task.anchor:
        sides = beside(task.anchor, pairs)
        found = relative_time(
            sides,
            protocol=RELATIVE,
            effort=RELATIVE_EFFORT,
            is_clear=lambda found: _is_settled(found) or _is_slower(found, task.rival_us),
            rng=np.random.default_rng(),
        )
        return found.timings, found.timings, anchor_note(task.anchor.task.genome_id, found)
    with alone():
        timings = tuple(
            measure(contender, bench, protocol, rule=rule)[0]
            for contender, bench in pairs
            for protocol, rule in rules_of(bench.protocols)
        )
    first = {str(bench.workload): bench.protocols[0].name for _, bench in pairs}
    return timings, tuple(t for t in timings if t.protocol == first[t.workload]), {}


def _is_settled(found: RatioInterval) -> bool:
    return found.high < _SETTLED * found.low


def _is_slower(found: RatioInterval, rival_us: float | None) -> bool:
    """Whether it is no longer of interest: more precise it need not be."""
    return rival_us is not None and found.low > rival_us


def contenders_of(task: GpuTask) -> list[tuple[KernelContender, Bench]]:
    """The task's kernel on each of its timed workloads, with the inputs to time it on."""
    return [
        (
            KernelContender(task.genome_id, task.kernel(workload, launches)),
            cache.bench(workload, task.spec, task.seed),
        )
        for workload, launches in task.timed
    ]


def beside(anchor: Anchor, pairs: list[tuple[KernelContender, Bench]]) -> list[Beside]:
    """The candidate and the anchor on each workload, captured: the host's part, while others launch."""
    known = zip(_anchor_contenders(anchor.task), anchor.times_us, strict=True)
    sides = [
        Beside(contender, other, us, bench)
        for (contender, bench), ((other, _), us) in zip(pairs, known, strict=True)
    ]
    for each in sides:
        for kernel in (each.contender, each.known):
            kernel.graph(each.bench, each.bench.walk)
    return sides


@lru_cache(maxsize=1)  # the next anchor replaces it
def _anchor_contenders(anchor: GpuTask) -> list[tuple[KernelContender, Bench]]:
    """An anchor's kernel on each timed workload, loaded once, and so captured once."""
    return contenders_of(anchor)


def check_physics(timings: tuple[Timing, ...], task: GpuTask) -> None:
    """Raises RejectedError for a time that cannot be."""
    workloads = {str(workload): workload for workload, _ in task.timed}
    for timing in timings:
        if reason := beats_physics(timing, workloads[timing.workload], task.spec):
            raise RejectedError(Status.CORRECTNESS, reason)


def environment() -> dict[str, str]:
    """What the times depend on."""
    return dict(_environment())


@lru_cache(maxsize=1)
def _environment() -> Mapping[str, str]:
    gpu = launcher.present_gpu()  # takes a millisecond
    versions = {"gpu": gpu.device_name, "driver_cuda": gpu.driver, "cupy": launcher.cupy().__version__}
    return versions | gpu_note(gpu_uuid(gpu.pci_bus_id))


_APART = 0.01  # times of one kernel taken at other moments differ by half of it
_HOPELESS, _HOST_US = 3.0, 1000.0  # a single eager launch: what the host takes for it is in its time
_FAR_BEHIND = 2.0  # a single replay
_ALLOWANCE, _LEAST_S = 20.0, 1.0  # a launch may take as many times what the slowest of interest takes


def screen(task: GpuTask) -> GpuOutcome:
    """SCREENED with its short time as score, CORRECT when the task is worth every check, or a failure.

    Without an anchor or a rival there is nothing to be slower than: CORRECT at once, and nothing is run.
    """
    outcome = GpuOutcome(task.genome_id, Status.CORRECT, Rung.SMOKE)
    return climb_rungs(task, outcome, _screen) if task.anchor and task.rival_us else outcome


def _screen(task: GpuTask, outcome: GpuOutcome) -> Iterator[GpuOutcome]:
    outcome = replace(outcome, environment=environment())
    yield outcome
    smoke(task)
    outcome = replace(outcome, rung=Rung.CORRECTNESS)
    yield outcome
    outcome, took_us = _look_at(task, outcome)
    outcome = replace(outcome, rung=Rung.TIMING)
    yield outcome
    rival_us = task.rival_us
    assert rival_us is not None, "screen() has asked"
    assert task.anchor is not None, "screen() has asked"
    if score(took_us) > _HOPELESS * rival_us + _HOST_US:
        yield _too_slow(outcome, _single(task, took_us), score(took_us), rival_us)
        return
    slow_us = (1 + _APART) * rival_us
    found = relative_time(
        beside(task.anchor, contenders_of(task)),
        effort=SCREEN_EFFORT,
        is_clear=lambda found: found.low > slow_us or found.high < rival_us,
        is_far=lambda us: us > _FAR_BEHIND * rival_us,
        rng=np.random.default_rng(),
    )
    noted = anchor_note(task.anchor.task.genome_id, found)
    outcome = replace(outcome, environment={**outcome.environment, **noted})
    check_physics(found.timings, task)
    if found.score_us.low > slow_us or found.score_us.ratio > _FAR_BEHIND * rival_us:
        yield _too_slow(outcome, found.timings, found.score_us.ratio, rival_us)
    else:
        yield replace(outcome, timings=found.timings, score_us=found.score_us.ratio)


def _look_at(task: GpuTask, outcome: GpuOutcome) -> tuple[GpuOutcome, list[float]]:
    """One checked launch on each timed workload, and their times in us."""
    limit_s, took_us = allowance_s(task), []
    for workload, parts in task.timed:
        subject = replace(subject_of(task, workload, parts), limit_s=limit_s)
        verdict, one_us = verdicts.first_look(subject)
        outcome = with_verdict(outcome, verdict)
        if not verdict.passed:  # all checks at size also find out whether evoflash's own copies are whole
            stop_if_wrong(with_verdict(outcome, verdicts.at_size(subject)))
            stop_if_wrong(outcome)
        took_us.append(one_us)
    return outcome, took_us


def allowance_s(task: GpuTask) -> float:
    """How long one launch on a timed workload may take, in seconds."""
    return max(_LEAST_S, _ALLOWANCE * 1e-6 * (task.rival_us or 0.0))


def _single(task: GpuTask, took_us: list[float]) -> tuple[Timing, ...]:
    return tuple(
        Timing(str(workload), SCREENED.name, us, None, None, n=1)
        for (workload, _), us in zip(task.timed, took_us, strict=True)
    )


def _too_slow(
    outcome: GpuOutcome, timings: tuple[Timing, ...], score_us: float, rival_us: float
) -> GpuOutcome:
    reason = f"too slow to be proven: {score_us:.2f} us against {rival_us:.2f} us"
    return replace(outcome, status=Status.SCREENED, reason=reason, timings=timings, score_us=score_us)
