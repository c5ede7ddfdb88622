"""Genomes on their way through compilation, screen, pre-flight and proof, many at a time. Measures nothing.

Each has a thread of its own, which only waits: the work is done in worker processes and in the GPU process.
A genome goes on as soon as its own last step is done, whatever was submitted before it. A kernel whose
machine code is known, or on its way, is not sent a second time.
"""

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any

from evoflash.evaluation import Build, Rung, Status
from evoflash.evaluators.machines import GpuQueue
from evoflash.evaluators.pipeline import Duplicates, settled
from evoflash.evaluators.prepare import Prepared
from evoflash.evaluators.standing import Standing, anchor_of
from evoflash.evaluators.tasks import Asked
from evoflash.gpu_process import rung_times
from evoflash.gpu_process.outcome import GpuOutcome
from evoflash.gpu_process.rungs import GpuTask
from evoflash.isolation import Ending
from evoflash.space import Genome

Preparing = Callable[[Genome], "Future[Ending[Prepared]]"]
Preflighting = Callable[[Genome, Prepared], "Future[Ending[Prepared]] | None"]


@dataclass(frozen=True, slots=True)
class Climbed:
    """How far a genome came; the outcome is None where it failed before the GPU, or in pre-flight."""

    prepared: Prepared
    outcome: GpuOutcome | None = None


@dataclass(frozen=True, slots=True)
class Steps:
    """What a genome goes through. `preflight` is None where it needs none before its proof."""

    prepare: Preparing
    preflight: Preflighting
    asked: Asked
    worker: GpuQueue
    now: Callable[[GpuTask], GpuTask]  # with what a task has to keep up with when its turn comes
    is_worth_it: Callable[[float], bool]  # whether a kernel with that time in us goes through the emulator
    standing: Standing
    duplicates: Duplicates


class Climbs:
    """All genomes that are under way."""

    def __init__(self, steps: Steps, *, at_once: int) -> None:
        self._steps, self._lock, self._is_over = steps, threading.Lock(), False
        self._threads = ThreadPoolExecutor(max_workers=at_once, thread_name_prefix="evoflash-climb")
        self._kernels: dict[object, Future[Climbed]] = {}
        self._last: Future[Climbed] | None = None

    def start(self, genome: Genome) -> "Future[Climbed]":
        """Start on a genome; returns at once."""
        preparing = self._steps.prepare(genome)
        self._last = self._threads.submit(self._climb, genome, preparing, self._last)
        return self._last

    def end(self) -> None:
        """Send nothing more to the GPU. What waits for a process ends when its pool is closed."""
        self._is_over = True
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _climb(
        self, genome: Genome, preparing: "Future[Ending[Prepared]]", before: "Future[Climbed] | None"
    ) -> Climbed:
        prepared = settled(preparing.result())
        if prepared.failure or self._steps.duplicates.original_of(genome, prepared.builds):
            return Climbed(prepared)
        if before is not None:  # until one is proven they come one by one: the first is the likeliest
            either: tuple[Future[Any], ...] = (before, self._steps.standing.begun)
            wait(either, return_when=FIRST_COMPLETED)
        mine: Future[Climbed] = Future()
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

    def _on_the_gpu(self, genome: Genome, prepared: Prepared) -> Climbed:
        steps = self._steps
        task = steps.asked.task_of(genome, prepared.builds)
        self._check_not_over()
        screened = steps.worker.screen(task, now=steps.now).result()
        if screened.status is not Status.CORRECT:
            return Climbed(prepared, screened)
        self._check_not_over()
        proof = steps.worker.submit(task, now=steps.now).result()
        if proof.status is not Status.CORRECT:
            return self._ended(prepared, proof, screened)
        anchor = anchor_of(task, proof.timings)
        steps.standing.offer(anchor)
        if proof.score_us is None:
            return self._ended(prepared, proof, screened)
        if not prepared.profiles and not steps.is_worth_it(proof.score_us):
            return self._ended(prepared, _let_be(proof), screened)
        steps.standing.add(proof.score_us, anchor)  # others need not wait for the emulator
        if preflight := steps.preflight(genome, prepared):
            prepared = _with(settled(preflight.result()), prepared.builds)
        if prepared.failure:
            steps.standing.take_back(proof.score_us)
            return Climbed(prepared)
        return self._ended(prepared, proof, screened)

    def _ended(self, prepared: Prepared, proof: GpuOutcome, screened: GpuOutcome) -> Climbed:
        spent = rung_times.together(proof.environment, screened.environment)
        return Climbed(prepared, replace(proof, environment=spent))

    def _check_not_over(self) -> None:
        if self._is_over:
            raise CancelledError


def _let_be(proof: GpuOutcome) -> GpuOutcome:
    """Of a kernel that is right on the GPU and too slow for the emulator, which it was not shown to yet."""
    reason = f"too slow to be emulated: {proof.score_us:.2f} us"
    return replace(proof, status=Status.SCREENED, rung=Rung.TIMING, reason=reason)


def _with(prepared: Prepared, builds: tuple[Build, ...]) -> Prepared:
    return replace(prepared, builds=builds)
