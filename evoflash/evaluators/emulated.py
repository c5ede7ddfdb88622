"""Evaluates without a GPU, by the emulator's checks and the performance model's estimate. Times nothing.

What is too slow to be among the best by its estimate is screened out before the emulator has checked all of
it, and is not proven. What a proposal has to keep up with goes by its place in the search alone, so that a
search repeats itself whatever takes how long, and over a stop.
"""

from concurrent.futures import Future
from dataclasses import replace

from evoflash.evaluation import Basis, Evaluation, Rung, Status, Timing, score
from evoflash.evaluators.pipeline import PreparingEvaluator, preparation_of
from evoflash.evaluators.prepare import (
    PREPARE_LIMIT_S,
    Preparation,
    ScreeningResult,
    bound_of,
    estimates,
    prepare,
    rival_beating,
    rivals,
    with_preflight,
)
from evoflash.isolation import Ending
from evoflash.perf_model import model_version
from evoflash.problem import Problem
from evoflash.space import Genome
from evoflash.specs import GpuSpec

# What is written past the primitives that the model counts would cost nothing, and lead.
NO_ESTIMATE = "right in the emulator; the model has no estimate of an edited text, only a GPU times it"


def screen_or_prepare(
    genome: Genome, problem: Problem, gpu: GpuSpec, seed: int, rivals_us: tuple[float, ...]
) -> Preparation:
    """What prepare() makes of a genome, with the emulator, if its estimate keeps up with those times; else
    how slow it is.
    """
    compiled = prepare(genome, problem, gpu, False, seed)
    if compiled.failure:
        return compiled
    counted = with_preflight(genome, problem, gpu, compiled, seed, only_counted=True)
    if not counted.failure:
        found = estimates(genome, counted, problem, gpu)
        rival_us = rival_beating(score([each.total_us for each in found]), rivals_us)
        if rival_us is not None:
            return replace(counted, screened=ScreeningResult(found, rival_us))
    return with_preflight(genome, problem, gpu, compiled, seed)


class EmulatedEvaluator(PreparingEvaluator[Ending[Preparation]]):
    """Evaluates on a machine without the GPU; times are the performance model's."""

    basis = Basis.ESTIMATED
    model_version = model_version()

    def _begin(self, genome: Genome) -> "Future[Ending[Preparation]]":
        if genome.edits:
            return self._preparing(genome, emulate=True)
        known = () if self._proves_all else self._told[: self._known_count]
        known_us = rivals(filter(None, map(_proven_us, known)))
        if not known_us:
            return self._preparing(genome, emulate=True)
        arguments = (genome, self.problem, self.gpu, self._seed_of(genome), known_us)
        return self._pool.submit(screen_or_prepare, *arguments, timeout_s=PREPARE_LIMIT_S)

    @property
    def _known_count(self) -> int:
        """How many outcomes a proposal that is submitted now may know of: as many as are there when it comes
        in a search that was never stopped. After a stop there are more.
        """
        return max(0, len(self._told) + self.pending - self.ahead + 1)

    def _preparation_of(self, found: Ending[Preparation]) -> Preparation:
        return preparation_of(found)

    def _with_timings(self, evaluation: Evaluation, found: Ending[Preparation]) -> Evaluation:
        prepared = preparation_of(found)
        if evaluation.genome.edits:
            return replace(evaluation, rung=Rung.PREFLIGHT, reason=NO_ESTIMATE, model_version="")
        screened = prepared.screened
        estimated = (
            screened.estimates if screened else estimates(evaluation.genome, prepared, self.problem, self.gpu)
        )
        timings = tuple(
            Timing(
                workload=str(workload),
                protocol="model",
                median_us=each.total_us,
                p10_us=None,
                p90_us=None,
                n=0,
                terms=dict(each.terms),
            )
            for workload, each in zip(self.problem.workloads, estimated, strict=True)
        )
        score_us = score([timing.median_us for timing in timings])
        timed = replace(evaluation, timings=timings, score_us=score_us, bound=bound_of(estimated))
        return _screened_evaluation(timed, screened) if screened else timed


def _screened_evaluation(evaluation: Evaluation, screened: ScreeningResult) -> Evaluation:
    against = f"~{evaluation.score_us:.2f} us against ~{screened.rival_us:.2f} us, ESTIMATED"
    reason = f"too slow to be proven: {against}"
    return replace(evaluation, status=Status.SCREENED, rung=Rung.TIMING, reason=reason)


def _proven_us(evaluation: Evaluation) -> float | None:
    """The time of a kernel that counts among the best; duplicates count once."""
    return evaluation.score_us if evaluation.is_correct and not evaluation.duplicate_of else None
