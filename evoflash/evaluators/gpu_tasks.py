"""What the GPU is asked about the genomes of a search, and which of its proven kernels each is compared with.

Submits nothing; what a task's outcome means is rungs.py's. The best proven kernels so far are kept, because
the next candidate is timed beside the first of them and has to keep up with the last.
"""

import bisect
import contextlib
import threading
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, replace

from evoflash import operation as registry
from evoflash.evaluation import SCORED, Build, Timing, score
from evoflash.evaluators.pipeline import launcher
from evoflash.evaluators.prepare import ELITES, FEW
from evoflash.gpu.process import rungs
from evoflash.gpu.process.rungs import Anchor, GpuTask, launches_on
from evoflash.kernels.family import load_family
from evoflash.problem import Problem
from evoflash.space import Genome
from evoflash.specs import GpuSpec
from evoflash.workload import Workload

_FAR_FASTER = 0.7  # a new anchor costs a capture in each process


class Incumbents:
    """The best proven kernels so far; threads may ask and add at any time."""

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
        return rungs.task_of(
            genome.id,
            self.gpu,
            builds,
            launcher(genome, self.gpu),
            checks=self.checks,
            timed=self.problem.workloads,
            seed=self.seed,
            is_deterministic=load_family(genome.family).is_deterministic,
        )

    def hidden_launches(self, genome: Genome, *, seed: int) -> rungs.Launches:
        """Launches on shapes that are drawn from the seed."""
        return launches_on(self.hidden_workloads(seed), launcher(genome, self.gpu))

    def hidden_workloads(self, seed: int) -> tuple[Workload, ...]:
        operation = registry.load(self.problem.operation)
        return operation.hidden_workloads(self.problem.compile_keys(self.gpu.arch), seed=seed)


def task_template(problem: Problem, gpu: GpuSpec, *, seed: int) -> TaskTemplate:
    """With the check shapes of the problem's operation."""
    operation = registry.load(problem.operation)
    return TaskTemplate(problem, gpu, seed, operation.check_workloads(problem.compile_keys(gpu.arch)))
