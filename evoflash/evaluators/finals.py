"""The last phase of a measured search, in which the best kernels face hidden shapes, then baselines.

What came of it is stored. The phase follows the loop (search.py) and proposes nothing. It checks and times
nothing itself: a Retimer does, and gpu/process/finals.py says what is compared with what.
"""

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from evoflash.evaluation import FINAL, Baseline, Evaluation, Proposal, Run, Rung, Status, Timing, score
from evoflash.gpu.process.finals import FinalReport, failed_check, row_of
from evoflash.gpu.process.outcome import GpuOutcome
from evoflash.gpu.process.rungs import GpuTask
from evoflash.problem import Problem
from evoflash.space import Genome
from evoflash.specs import GpuSpec

log = logging.getLogger(__name__)
FINALISTS = 5
_WITHIN = (
    1.02  # of the fastest: two times of one search, taken beside the same kernel, differ by a quarter of it
)


class Retimer(Protocol):
    """Checks and times known genomes again on the GPU; an evaluator that measures has one."""

    @property
    def problem(self) -> Problem:
        """What is timed."""

    @property
    def gpu(self) -> GpuSpec:
        """Where it is timed."""

    def begin_finals(self) -> int:
        """Make ready for shapes that no search has seen; returns the seed of these and of their data."""

    def task_of(self, genome: Genome) -> GpuTask:
        """What the GPU process needs of a genome; compiles it where that was not done."""

    def checked_on_hidden_shapes(self, task: GpuTask, genome: Genome, *, seed: int) -> GpuOutcome:
        """What became of the genome on shapes and data that are drawn from the seed."""

    def in_turns(self, finalists: Sequence[GpuTask]) -> FinalReport | None:
        """Finalists and baselines timed in turns in a fresh process; None, and a warning, when one failed."""


class FinalsRecord(Protocol):
    """What the phase needs of a store."""

    def history(self, run: Run, /) -> Iterable[tuple[Proposal, Evaluation]]:
        """Everything that the run has evaluated."""

    def reject(self, run: Run, genome_id: str, /, *, rung: Rung, reason: str) -> None:
        """A finalist turned out to be wrong."""

    def update_timings(self, run: Run, genome_id: str, timings: Sequence[Timing], score_us: float, /) -> None:
        """A finalist was timed again."""

    def add_baseline(self, run: Run, baseline: Baseline, /) -> None:
        """A library was timed beside the finalists."""


def time_finalists(
    retimer: Retimer | None,
    store: FinalsRecord,
    run: Run,
    *,
    said: Callable[[str], None] = lambda _: None,
) -> FinalReport | None:
    """Promote the run's best: check them on shapes that the search never saw, time them and the baselines
    again, in turns, in a fresh process, and store what came out; `said` hears that this begins.

    `retimer` is the evaluator's, which has none where times are estimates. Returns None then, and when
    nothing was left to time.
    """
    if retimer is None:
        return None
    said("timing the finalists and the baselines in turns, in a fresh process")
    finalists = promote(retimer, store, run)
    report = retimer.in_turns(finalists) if finalists else None
    if report is not None:
        _keep(report, {task.genome_id for task in finalists}, retimer, store, run)
    return report


def promote(retimer: Retimer, store: FinalsRecord, run: Run, *, count: int = FINALISTS) -> list[GpuTask]:
    """The fastest candidates that are right on hidden shapes too, as far as they are within 2 % of the
    fastest of these; the store rejects those that are wrong.

    Shapes and data come from a seed that is drawn for this: no search can have met it. A rejection names it.
    """
    seed = retimer.begin_finals()
    log.info("hidden shapes: seed %d", seed)
    right, slowest_us = [], math.inf
    for genome, score_us in _fastest(store, run, count):
        if score_us > slowest_us:
            break
        task = retimer.task_of(genome)
        outcome = retimer.checked_on_hidden_shapes(task, genome, seed=seed)
        if outcome.status is Status.CORRECT:
            right.append(task)
            slowest_us = min(slowest_us, _WITHIN * score_us)
        else:
            reason = f"hidden shape, seed {seed}: {outcome.reason}"
            store.reject(run, task.genome_id, rung=outcome.rung, reason=reason)
    return right


def _fastest(store: FinalsRecord, run: Run, count: int) -> list[tuple[Genome, float]]:
    correct = [e for _, e in store.history(run) if e.is_correct and not e.duplicate_of and not e.is_censored]
    timed = [(e.genome, e.score_us) for e in correct if e.score_us is not None]
    return sorted(timed, key=lambda pair: pair[1])[:count]


def _keep(report: FinalReport, finalists: set[str], retimer: Retimer, store: FinalsRecord, run: Run) -> None:
    for name, timings in report.timings.items():
        score_us = score([t.median_us for t in timings if t.protocol in FINAL])
        if name not in finalists:
            if row := row_of(report, name, problem=retimer.problem, gpu=retimer.gpu.name):
                store.add_baseline(run, row)
        elif wrong := failed_check(report, name):
            store.reject(run, name, rung=Rung.TIMING, reason=wrong)
        else:
            store.update_timings(run, name, timings, score_us)
