"""Evaluates without a GPU: correctness by the emulator, time by the performance model, always an estimate."""

from dataclasses import replace

from evoflash.evaluation import Basis, Evaluation, Timing, score
from evoflash.evaluators.pipeline import PreparingEvaluator
from evoflash.evaluators.prepare import Prepared
from evoflash.family import load_family
from evoflash.model import Estimate, estimate, model_version
from evoflash.problem import Workload
from evoflash.space import Genome


class EmulatedEvaluator(PreparingEvaluator):
    """Evaluates on a machine without the GPU; times are the performance model's."""

    basis = Basis.ESTIMATED
    model_version = model_version()

    def _emulates(self, genome: Genome) -> bool:
        return True

    def _timed(self, evaluation: Evaluation, prepared: Prepared) -> Evaluation:
        estimates = [self._estimate(evaluation, prepared, workload) for workload in self._problem.workloads]
        timings = tuple(
            Timing(
                workload=str(workload),
                protocol="model",
                median_us=found.total_us,
                p10_us=found.total_us,
                p90_us=found.total_us,
                n=1,
                terms=dict(found.terms),
            )
            for workload, found in zip(self._problem.workloads, estimates, strict=True)
        )
        slowest = max(estimates, key=lambda found: found.total_us)
        score_us = score([timing.median_us for timing in timings])
        return replace(evaluation, timings=timings, score_us=score_us, bound=slowest.bound)

    def _estimate(self, evaluation: Evaluation, prepared: Prepared, workload: Workload) -> Estimate:
        at = self._problem.compile_keys(self._gpu.arch).index(workload.compile_key(self._gpu.arch))
        launch, *_ = load_family(evaluation.genome.family).launches(evaluation.genome, workload, self._gpu)
        build = prepared.builds[at]
        return estimate(
            prepared.profiles[at],
            launch,
            workload,
            self._gpu,
            registers=build.registers,
            spill_bytes=build.spill_bytes,
        )
