"""Evaluates without a GPU: correctness by the emulator, time by the performance model, always an estimate."""

import math
from collections.abc import Iterable
from dataclasses import replace

from evoflash.evaluation import Basis, Evaluation, Proposal, Timing
from evoflash.evaluators.pipeline import Pipeline
from evoflash.evaluators.prepare import Prepared
from evoflash.family import load_family
from evoflash.gpu import GpuSpec
from evoflash.model import Estimate, estimate, model_version
from evoflash.problem import Problem, Workload


class EmulatedEvaluator:
    """Holds the worker processes of a search on a machine without the GPU; a context manager."""

    basis = Basis.ESTIMATED

    def __init__(
        self,
        problem: Problem,
        gpu: GpuSpec,
        *,
        seed: int,
        history: Iterable[Evaluation] = (),
        workers: int | None = None,
    ) -> None:
        """`history` is what the run has evaluated before: its kernels' twins cost no budget."""
        self._problem, self._gpu = problem, gpu
        self._pipeline = Pipeline(problem, gpu, seed=seed, history=history, workers=workers)

    def __enter__(self) -> "EmulatedEvaluator":
        return self

    def __exit__(self, *_: object) -> None:
        self._pipeline.close()

    @property
    def ahead(self) -> int:
        """Enough that no worker waits for a proposal."""
        return 2 * self._pipeline.workers

    @property
    def pending(self) -> int:
        """Proposals submitted and not yet collected."""
        return len(self._pipeline)

    def submit(self, proposal: Proposal) -> None:
        """Start on a proposal; returns at once."""
        self._pipeline.submit(proposal, emulate=True)

    def cancel(self) -> None:
        """Drop everything pending."""
        self._pipeline.cancel()

    def collect(self) -> tuple[Proposal, Evaluation]:
        """The oldest pending proposal's outcome, waiting for it."""
        proposal, evaluation, prepared = self._pipeline.next(self.basis)
        evaluation = replace(evaluation, model_version=model_version())
        if prepared is not None:
            evaluation = self._estimated(evaluation, prepared)
        self._pipeline.twins.remember(evaluation)
        return proposal, evaluation

    def _estimated(self, evaluation: Evaluation, prepared: Prepared) -> Evaluation:
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
        score_us = math.exp(sum(math.log(t.median_us) for t in timings) / len(timings))
        return replace(evaluation, timings=timings, score_us=score_us, bound=slowest.bound)

    def _estimate(self, evaluation: Evaluation, prepared: Prepared, workload: Workload) -> Estimate:
        at = self._problem.compile_keys(self._gpu.arch).index(workload.compile_key(self._gpu.arch))
        (launch,) = load_family(evaluation.genome.family).launches(evaluation.genome, workload, self._gpu)
        build = prepared.builds[at]
        return estimate(
            prepared.profiles[at],
            launch,
            workload,
            self._gpu,
            registers=build.registers,
            spill_bytes=build.spill_bytes,
        )
