"""Evaluates on the GPU that is present: prepared in worker processes, checked and timed in a GPU process.

Compilation of the next genomes overlaps the GPU's work on this one. The emulator sees one genome of each
structural core before the GPU does.
"""

import logging
import math
from collections.abc import Iterable
from dataclasses import replace
from shutil import which

from evoflash.benchmark import score
from evoflash.compiler import compile_candidate
from evoflash.evaluation import Baseline, Basis, Build, Evaluation, Proposal
from evoflash.evaluators.pipeline import Pipeline
from evoflash.family import load_family
from evoflash.gpu import GpuSpec
from evoflash.problem import CompileKey, Problem, Workload
from evoflash.renderer import render
from evoflash.rows import FINAL
from evoflash.search import faster
from evoflash.space import Genome
from evoflash.store import Run, Store
from evoflash.worker import FinalReport, FinalTask, GpuOutcome, GpuTask, GpuWorker, Launches

log = logging.getLogger(__name__)
FINALISTS = 5
# (seq_q, seq_kv), cheapest first; the same for every genome, so that references are computed once a run.
# The last one fills every ring of the families' deepest pipelines twice, with a tail.
_CHECK_LENGTHS = ((1, 1), (3, 40), (113, 203), (257, 129), (1, 239), (199, 1157))


class MeasuredEvaluator:
    """Holds the worker processes of a search on the GPU; a context manager."""

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
        """`history` is what the run has evaluated before: twins cost no budget, its best is the incumbent."""
        self._problem, self._gpu, self._seed = problem, gpu, seed
        past = list(history)
        self._pipeline = Pipeline(problem, gpu, seed=seed, history=past, workers=workers)
        self._worker = GpuWorker()
        self._best: Evaluation | None = None
        for evaluation in past:
            self._best = faster(self._best, evaluation)
        self._cores: set[object] = set()
        self._can_emulate = which("g++") is not None
        if not self._can_emulate:
            log.warning("no g++: kernels go to the GPU without the emulator's pre-flight; apt-get install g++.")

    def __enter__(self) -> "MeasuredEvaluator":
        self._worker.__enter__()
        return self

    def __exit__(self, *exit_: object) -> None:
        self._pipeline.close()
        self._worker.__exit__(None, None, None)

    @property
    def ahead(self) -> int:
        """Enough that compilation stays ahead of the GPU."""
        return 2 * self._pipeline.workers

    @property
    def pending(self) -> int:
        """Proposals submitted and not yet collected."""
        return len(self._pipeline)

    def submit(self, proposal: Proposal) -> None:
        """Start on a proposal; returns at once."""
        core = (proposal.genome.family, load_family(proposal.genome.family).core(proposal.genome))
        self._pipeline.submit(proposal, emulate=self._can_emulate and core not in self._cores)
        self._cores.add(core)

    def cancel(self) -> None:
        """Drop everything pending."""
        self._pipeline.cancel()

    def collect(self) -> tuple[Proposal, Evaluation]:
        """The oldest pending proposal's outcome, waiting for it."""
        proposal, evaluation, prepared = self._pipeline.next(self.basis)
        if prepared is not None:
            outcome = self._worker.submit(self._task(proposal.genome, prepared.builds)).result()
            evaluation = _measured(evaluation, outcome)
        self._pipeline.twins.remember(evaluation)
        self._best = faster(self._best, evaluation)
        return proposal, evaluation

    def _task(self, genome: Genome, builds: tuple[Build, ...]) -> GpuTask:
        return GpuTask(
            genome_id=genome.id,
            spec=self._gpu,
            cubins=tuple((build.compile_key, build.cubin_path) for build in builds),
            checks=self._launches(genome, self._check_workloads()),
            timed=self._launches(genome, self._problem.workloads),
            seed=self._seed,
            incumbent_us=self._best.score_us if self._best else None,
        )

    def _check_workloads(self) -> tuple[Workload, ...]:
        keys = self._problem.compile_keys(self._gpu.arch)
        return tuple(_check_workload(key, *lengths) for lengths in _CHECK_LENGTHS for key in keys)

    def _launches(self, genome: Genome, workloads: Iterable[Workload]) -> Launches:
        family = load_family(genome.family)
        return tuple((workload, family.launches(genome, workload, self._gpu)) for workload in workloads)

    def _builds(self, genome: Genome) -> tuple[Build, ...]:
        """The genome's builds, from the cache where the search put them."""
        keys = self._problem.compile_keys(self._gpu.arch)
        return tuple(compile_candidate(render(genome, key, self._gpu)) for key in keys)

    def finals(self, store: Store, run: Run) -> FinalReport | None:
        """Time the run's best and the baselines again, in turns, in a fresh process; store what came out."""
        history = [e for _, e in store.history(run) if e.is_correct and not e.duplicate_of and not e.is_censored]
        finalists = sorted(history, key=lambda e: e.score_us or math.inf)[:FINALISTS]
        if not finalists:
            return None
        task = FinalTask(
            tasks=tuple(self._task(e.genome, self._builds(e.genome)) for e in finalists),
            workloads=self._problem.workloads,
            spec=self._gpu,
            seed=self._seed,
        )
        ending = self._worker.finalists(task).result()
        report = ending.value
        if report is None:
            log.warning("the finalists could not be timed again (%s): the search's own times stand.", ending.reason)
            return None
        genomes = {e.genome.id for e in finalists}
        for name, timings in report.timings.items():
            score_us = score([t.median_us for t in timings if t.protocol in FINAL])
            if name in genomes:
                store.update_timings(run, name, timings, score_us)
            else:
                environment = dict(report.environment.get(name, {}))
                store.add_baseline(run, Baseline(name, str(self._problem), self._gpu.name, timings, score_us, environment))
        return report


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


def _check_workload(key: CompileKey, seq_q: int, seq_kv: int) -> Workload:
    """Two batches and two key/value heads: a mixed-up stride shows."""
    return Workload(2, 2 * key.gqa_ratio, 2, seq_q, seq_kv, key.head_dim, key.dtype, key.causal)
