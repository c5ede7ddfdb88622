"""Evaluates without a GPU: correctness by the emulator, time by the performance model, always an estimate."""

from concurrent.futures import Future
from dataclasses import replace

from evoflash.evaluation import Basis, Evaluation, Timing, score
from evoflash.evaluators.estimates import bound_of, estimates
from evoflash.evaluators.pipeline import PreparingEvaluator, settled
from evoflash.evaluators.prepare import Prepared
from evoflash.isolation import Ending
from evoflash.perf_model.estimate import model_version
from evoflash.space import Genome


class EmulatedEvaluator(PreparingEvaluator[Ending[Prepared]]):
    """Evaluates on a machine without the GPU; times are the performance model's."""

    basis = Basis.ESTIMATED
    model_version = model_version()

    def _begin(self, genome: Genome) -> "Future[Ending[Prepared]]":
        return self._preparing(genome, emulate=True)

    def _prepared(self, found: Ending[Prepared]) -> Prepared:
        return settled(found)

    def _timed(self, evaluation: Evaluation, found: Ending[Prepared]) -> Evaluation:
        estimated = estimates(evaluation.genome, settled(found), self._problem, self._gpu)
        timings = tuple(
            Timing(
                workload=str(workload),
                protocol="model",
                median_us=each.total_us,
                p10_us=each.total_us,
                p90_us=each.total_us,
                n=1,
                terms=dict(each.terms),
            )
            for workload, each in zip(self._problem.workloads, estimated, strict=True)
        )
        score_us = score([timing.median_us for timing in timings])
        return replace(evaluation, timings=timings, score_us=score_us, bound=bound_of(estimated))
