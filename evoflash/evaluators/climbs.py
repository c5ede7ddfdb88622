"""Takes many genomes at a time through compilation, screen, pre-flight and proof. Measures nothing itself.

Each has a thread of its own, which only waits: the work is done in worker processes and in the GPU process. A
genome goes on as soon as its own last step is done, whatever was submitted before it. A kernel whose machine
code is known, or on its way, is not sent a second time.

The best proven kernels of the search so far are kept here, because the next candidate is compared with them,
and so is what the GPU process is asked of a genome: cubins, launches, what to check and to time.
"""

import bisect
import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    Future,
    InvalidStateError,
    ThreadPoolExecutor,
    wait,
)
from dataclasses import dataclass, replace
from typing import Any

from evoflash import operation as registry
from evoflash.evaluation import SCORED, Build, Rung, Status, Timing, score
from evoflash.evaluators.estimates import ELITES, FEW
from evoflash.evaluators.machines import GpuQueue
from evoflash.evaluators.pipeline import Duplicates, preparation_of
from evoflash.evaluators.prepare import Preparation
from evoflash.gpu.process import outcome as rung_times
from evoflash.gpu.process import rungs
from evoflash.gpu.process.outcome import GpuOutcome
from evoflash.gpu.process.rungs import Anchor, GpuTask, Launcher, launches_on
from evoflash.isolation import Ending
from evoflash.kernels.family import load_family
from evoflash.operation import Workload
from evoflash.problem import Problem
from evoflash.space import Genome
from evoflash.specs import GpuSpec

_FAR_FASTER = 0.7


class Incumbents:
    """Threads may ask and add at any time."""

    def __init__(self) -> None:
        self._lock, self._best = threading.Lock(), list[float]()  # scores, the fastest first
        self._anchor: Anchor | None = None
        self.begun: Future[None] = Future()  # done once something can be compared with

    def add(self, score_us: float, anchor: Anchor | None) -> None:
        """One more proven kernel; None where its machine code is no longer at hand."""
        with self._lock:
            bisect.insort(self._best, score_us)
            del self._best[ELITES:]
        if anchor is not None:
            self.offer(anchor)

    def take_back(self, score_us: float) -> None:
        """The kernel of that time is wrong after all."""
        with self._lock, contextlib.suppress(ValueError):  # others have pushed it out
            self._best.remove(score_us)

    def offer(self, anchor: Anchor) -> None:
        """A kernel that has passed every check on the GPU, for others to be timed beside it."""
        with self._lock:
            known, us = self._anchor, score(anchor.times_us)
            if known is None or us < _FAR_FASTER * score(known.times_us):
                self._anchor = anchor
        with contextlib.suppress(InvalidStateError):  # it is done already
            self.begun.set_result(None)

    def is_among_the_best(self, score_us: float) -> bool:
        """Whether a kernel with that time would be one of the few best at this moment."""
        with self._lock:
            return len(self._best) < ELITES or score_us < self._best[-1]

    def now(self, task: GpuTask) -> GpuTask:
        """The task with what it has to keep up with at this moment; as it is while nothing is proven."""
        with self._lock:
            return replace(task, anchor=self._anchor, rival_us=_rival_us(self._best, self._anchor))


def _rival_us(best: Sequence[float], anchor: Anchor | None) -> float | None:
    if len(best) >= ELITES:
        return best[-1]
    known = [*best[:1], *([score(anchor.times_us)] if anchor else [])]
    return FEW * min(known) if known else None


def anchor_of(task: GpuTask, timings: Sequence[Timing]) -> Anchor:
    """A proven kernel with its times under the protocol that ranks it."""
    return Anchor(task, tuple(_ranking_us(workload, timings) for workload, _ in task.timed))


def _ranking_us(workload: Workload, timings: Sequence[Timing]) -> float:
    timed = {timing.protocol: timing.median_us for timing in timings if timing.workload == str(workload)}
    return next(timed[protocol] for protocol in SCORED if protocol in timed)


@dataclass(frozen=True, slots=True)
class TaskTemplate:
    """What all genomes of a search are asked."""

    problem: Problem
    gpu: GpuSpec
    seed: int
    checks: tuple[Workload, ...]

    def task_of(self, genome: Genome, builds: tuple[Build, ...]) -> GpuTask:
        """All that a search asks of a genome."""
        return rungs.task_of(
            genome.id,
            self.gpu,
            builds,
            self._launcher(genome),
            checks=self.checks,
            timed=self.problem.workloads,
            seed=self.seed,
            is_deterministic=load_family(genome.family).is_deterministic,
        )

    def hidden_launches(self, genome: Genome, *, seed: int) -> rungs.Launches:
        """Launches on shapes that are drawn from the seed."""
        return launches_on(self.hidden_workloads(seed), self._launcher(genome))

    def hidden_workloads(self, seed: int) -> tuple[Workload, ...]:
        """The shapes that are drawn from the seed."""
        operation = registry.load(self.problem.operation)
        return operation.hidden_workloads(self.problem.compile_keys(self.gpu.arch), seed=seed)

    def _launcher(self, genome: Genome) -> Launcher:
        family = load_family(genome.family)
        return lambda workload: family.launches(genome, workload, self.gpu)


def task_template(problem: Problem, gpu: GpuSpec, *, seed: int) -> TaskTemplate:
    """With the check shapes of the problem's operation."""
    operation = registry.load(problem.operation)
    return TaskTemplate(problem, gpu, seed, operation.check_workloads(problem.compile_keys(gpu.arch)))


Preparing = Callable[[Genome], "Future[Ending[Preparation]]"]
Preflighting = Callable[[Genome, Preparation], "Future[Ending[Preparation]] | None"]


@dataclass(frozen=True, slots=True)
class LadderProgress:
    """How far a genome came; the outcome is None where it failed before the GPU, or in pre-flight."""

    prepared: Preparation
    outcome: GpuOutcome | None = None


@dataclass(frozen=True, slots=True)
class Steps:
    """What a genome goes through. `preflight` is None where it needs none before its proof."""

    prepare: Preparing
    preflight: Preflighting
    asked: TaskTemplate
    worker: GpuQueue
    now: Callable[[GpuTask], GpuTask]  # with what a task has to keep up with when its turn comes
    is_worth_it: Callable[[float], bool]  # whether a kernel with that time in us goes through the emulator
    standing: Incumbents
    duplicates: Duplicates


class Climbs:
    """All genomes that are under way."""

    def __init__(self, steps: Steps, *, at_once: int) -> None:
        self._steps, self._lock, self._is_over = steps, threading.Lock(), False
        self._threads = ThreadPoolExecutor(max_workers=at_once, thread_name_prefix="evoflash-climb")
        self._kernels: dict[object, Future[LadderProgress]] = {}
        self._last: Future[LadderProgress] | None = None

    def start(self, genome: Genome) -> "Future[LadderProgress]":
        """Start on a genome; returns at once."""
        preparing = self._steps.prepare(genome)
        self._last = self._threads.submit(self._climb, genome, preparing, self._last)
        return self._last

    def end(self) -> None:
        """Send nothing more to the GPU. What waits for a process ends when its pool is closed."""
        self._is_over = True
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _climb(
        self,
        genome: Genome,
        preparing: "Future[Ending[Preparation]]",
        before: "Future[LadderProgress] | None",
    ) -> LadderProgress:
        prepared = preparation_of(preparing.result())
        if prepared.failure or self._steps.duplicates.original_of(genome, prepared.builds):
            return LadderProgress(prepared)
        if before is not None:  # until one is proven they come one by one: the first is the likeliest
            either: tuple[Future[Any], ...] = (before, self._steps.standing.begun)
            wait(either, return_when=FIRST_COMPLETED)
        mine: Future[LadderProgress] = Future()
        key = self._steps.duplicates.key_of(genome, prepared.builds)
        with self._lock:
            kernel = self._kernels.setdefault(key, mine)
        if kernel is not mine:
            twin = kernel.result()
            return replace(twin, prepared=_with(twin.prepared, prepared.builds))
        try:
            mine.set_result(self._on_the_gpu(genome, prepared))
        except BaseException as error:  # its twins wait for it, too
            mine.set_exception(error)
        return mine.result()

    def _on_the_gpu(self, genome: Genome, prepared: Preparation) -> LadderProgress:
        steps = self._steps
        task = steps.asked.task_of(genome, prepared.builds)
        self._check_not_over()
        screened = steps.worker.screen(task, now=steps.now).result()
        if screened.status is not Status.CORRECT:
            return LadderProgress(prepared, screened)
        self._check_not_over()
        proof = steps.worker.submit(task, now=steps.now).result()
        if proof.status is not Status.CORRECT:
            return self._final_progress(prepared, proof, screened)
        anchor = anchor_of(task, proof.timings)
        steps.standing.offer(anchor)
        if proof.score_us is None:
            return self._final_progress(prepared, proof, screened)
        if not prepared.profiles and not steps.is_worth_it(proof.score_us):
            return self._final_progress(prepared, _let_be(proof), screened)
        steps.standing.add(proof.score_us, anchor)  # others need not wait for the emulator
        if preflight := steps.preflight(genome, prepared):
            prepared = _with(preparation_of(preflight.result()), prepared.builds)
        if prepared.failure:
            steps.standing.take_back(proof.score_us)
            return LadderProgress(prepared)
        return self._final_progress(prepared, proof, screened)

    def _final_progress(
        self, prepared: Preparation, proof: GpuOutcome, screened: GpuOutcome
    ) -> LadderProgress:
        spent = rung_times.together(proof.environment, screened.environment)
        return LadderProgress(prepared, replace(proof, environment=spent))

    def _check_not_over(self) -> None:
        if self._is_over:
            raise CancelledError


def _let_be(proof: GpuOutcome) -> GpuOutcome:
    """Of a kernel that is right on the GPU and too slow for the emulator, which it was not shown to yet."""
    reason = f"too slow to be emulated: {proof.score_us:.2f} us"
    return replace(proof, status=Status.SCREENED, rung=Rung.TIMING, reason=reason)


def _with(prepared: Preparation, builds: tuple[Build, ...]) -> Preparation:
    return replace(prepared, builds=builds)
