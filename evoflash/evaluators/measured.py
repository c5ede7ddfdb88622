"""Evaluates on the GPU that is present: prepared in worker processes, checked and timed in a GPU process.

Compilation of the next genomes overlaps the GPU's work on this one. The emulator sees every genome before the
GPU does, and tells what bounds it; with few cores only one genome of each structural core.
"""

import functools
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from shutil import which
from typing import Self

from evoflash import operations
from evoflash.evaluation import Basis, Build, Evaluation, Proposal, Rung
from evoflash.evaluators.estimates import bound_of, estimates
from evoflash.evaluators.pipeline import PreparingEvaluator
from evoflash.evaluators.prepare import Prepared, compile_only
from evoflash.families.family import load_family
from evoflash.gpu import GpuSpec
from evoflash.gpu_process.finals import FinalReport, FinalTask
from evoflash.gpu_process.rungs import GpuOutcome, GpuTask, Launcher, launches_on, task_of
from evoflash.gpu_process.worker import GpuWorker
from evoflash.problem import Problem
from evoflash.search import faster
from evoflash.space import Genome

log = logging.getLogger(__name__)
AHEAD = 8  # proposals in flight
MANY_CORES = 4  # preparing a genome takes a core two seconds; the GPU takes half a second or more


class MeasuredEvaluator(PreparingEvaluator):
    """Evaluates on the GPU; compilation of the next genomes overlaps its work on this one."""

    basis = Basis.MEASURED

    def __init__(
        self,
        problem: Problem,
        gpu: GpuSpec,
        *,
        seed: int,
        history: Iterable[Evaluation] = (),
        workers: int | None = None,
    ) -> None:
        """As its base; the best of `history` is the incumbent that stops hopeless timings early."""
        past = list(history)
        super().__init__(problem, gpu, seed=seed, history=past, workers=workers)
        self._operation = operations.load(problem.operation)
        self._checks = self._operation.check_workloads(problem.compile_keys(gpu.arch))
        self._worker = GpuWorker(checks=self._checks, timed=problem.workloads, seed=seed)
        self._best = functools.reduce(faster, past, None)
        self._cores: set[object] = set()
        self._can_emulate = which("g++") is not None
        if not self._can_emulate:
            log.warning("no g++: kernels reach the GPU without the emulator's pre-flight; install g++.")

    def __exit__(self, *_: object) -> None:
        """End all worker processes."""
        super().__exit__()
        self._worker.close()

    @property
    def ahead(self) -> int:
        """Only a few: the GPU takes longer than a worker, and a proposal that is made early knows less."""
        return min(super().ahead, AHEAD)

    def _emulates(self, genome: Genome) -> bool:
        """On many cores every genome, else one of each structural core: the others share its code."""
        core = _core(genome)
        is_new = core not in self._cores
        self._cores.add(core)
        return self._can_emulate and (is_new or self._workers >= MANY_CORES)

    def collect(self) -> tuple[Proposal, Evaluation]:
        """As its base; where the emulator complained, the next genome of that core is emulated too."""
        proposal, evaluation = super().collect()
        if evaluation.rung is Rung.PREFLIGHT:
            self._cores.discard(_core(proposal.genome))
        self._best = faster(self._best, evaluation)
        return proposal, evaluation

    def _timed(self, evaluation: Evaluation, prepared: Prepared) -> Evaluation:
        outcome = self._worker.submit(self._task(evaluation.genome, prepared.builds)).result()
        bound = bound_of(estimates(evaluation.genome, prepared, self._problem, self._gpu))
        return replace(_measured(evaluation, outcome), bound=bound)

    def _task(self, genome: Genome, builds: tuple[Build, ...]) -> GpuTask:
        return task_of(
            genome.id,
            self._gpu,
            builds,
            self._launcher(genome),
            checks=self._checks,
            timed=self._problem.workloads,
            seed=self._seed,
            incumbent_us=self._best.score_us if self._best else None,
            is_deterministic=load_family(genome.family).is_deterministic,
        )

    def _launcher(self, genome: Genome) -> Launcher:
        family = load_family(genome.family)
        return lambda workload: family.launches(genome, workload, self._gpu)

    @property
    def retimer(self) -> Self:
        """Itself: it can check and time any genome again."""
        return self

    @property
    def problem(self) -> Problem:
        """What is timed."""
        return self._problem

    @property
    def gpu(self) -> GpuSpec:
        """Where it is timed."""
        return self._gpu

    def in_turns(self, finalists: Sequence[GpuTask]) -> FinalReport | None:
        """Finalists and baselines timed in turns in a fresh process; None, and a warning, when one failed."""
        task = FinalTask(tuple(finalists), self._problem.workloads, self._gpu, self._seed)
        ending = self._worker.finalists(task).result()
        if ending.value is None:
            log.warning(
                "the finalists could not be timed again (%s): the search's own times stand.", ending.reason
            )
        return ending.value

    def task_of(self, genome: Genome) -> GpuTask:
        """What the GPU process needs of a genome; compiles it where that was not done."""
        return self._task(genome, compile_only(genome, self._problem, self._gpu))

    def checked_on_hidden_shapes(self, task: GpuTask, genome: Genome, *, seed: int) -> GpuOutcome:
        """What became of the genome on shapes and data that are drawn from the seed."""
        hidden = self._operation.hidden_workloads(self._problem.compile_keys(self._gpu.arch), seed=seed)
        checks = launches_on(hidden, self._launcher(genome))
        return self._worker.submit(replace(task, checks=checks, timed=(), seed=seed)).result()


def _core(genome: Genome) -> object:
    return genome.family, load_family(genome.family).core(genome)


def _measured(evaluation: Evaluation, outcome: GpuOutcome) -> Evaluation:
    return replace(
        evaluation,
        status=outcome.status,
        rung=outcome.rung,
        reason=outcome.reason,
        verdicts=(*evaluation.verdicts, *outcome.verdicts),
        timings=outcome.timings,
        score_us=outcome.score_us,
        environment=dict(outcome.environment),
    )
