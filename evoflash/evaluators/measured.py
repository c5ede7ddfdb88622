"""Evaluates on the GPU that is present: prepared in worker processes, screened and proven in a GPU process.

Compilation, emulation and the GPU's work on different genomes overlap (climbs.py). With enough cores the
emulator sees every genome that is proven, while the GPU does, and tells what bounds it; a screen, which ends
half of all genomes, does not wait for it. Before the GPU it sees a genome until it has found nothing wrong
with another of the same family; where cores are few, of the same structural core.
"""

import logging
import secrets
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from pathlib import Path
from shutil import which
from typing import Self

from evoflash.champions import known_starts
from evoflash.evaluation import Basis, Evaluation, Rung
from evoflash.evaluators.climbs import Climbs, Incumbents, LadderProgress, Steps, anchor_of, task_template
from evoflash.evaluators.estimates import bound_of, estimates
from evoflash.evaluators.machines import Cores, GpuQueues
from evoflash.evaluators.pipeline import PreparingEvaluator, preparation_of
from evoflash.evaluators.prepare import PREPARE_LIMIT_S, Preparation, compile_only, with_preflight
from evoflash.gpu.process.finals import FinalReport, FinalTask
from evoflash.gpu.process.jobs import REFERENCES_LIMIT_S, keep_cases
from evoflash.gpu.process.outcome import GpuOutcome
from evoflash.gpu.process.rungs import GpuTask
from evoflash.gpu.process.worker import GpuWorker
from evoflash.isolation import Ending
from evoflash.kernels.family import load_family
from evoflash.problem import Problem
from evoflash.space import Genome
from evoflash.specs import GpuSpec

log = logging.getLogger(__name__)
# Proposals in flight for each GPU: eight a second leave it, half of them after 1.5 s in the emulator. Each
# proposal knows so many outcomes less (notes/lab-notes.md, 2026-11-24).
AHEAD = 16
_MOST_CLIMBS = 4096  # threads, of which no more are started than genomes are in flight
MANY_CORES = 4  # preparing a genome takes a core two seconds


class MeasuredEvaluator(PreparingEvaluator[LadderProgress]):
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
        cores: Cores | None = None,
        ahead: int | None = None,
        gpus: GpuQueues | None = None,
        proves_all: bool = False,
        energy: bool = False,
    ) -> None:
        """As its base; the best of `history` are what candidates are screened against, unless `proves_all`
        asks for every check of each of them. `gpus` are others than the one that is here, `energy` asks for
        that of the finalists.
        """
        past = list(history)
        self._can_emulate = which("g++") is not None
        super().__init__(problem, gpu, seed=seed, history=past, workers=workers, cores=cores, ahead=ahead)
        self._asked, self._proves_all = task_template(problem, gpu, seed=seed), proves_all
        self._energy = energy
        checks, timed = self._asked.checks, problem.workloads
        self._worker = gpus(checks=checks, timed=timed, seed=seed) if gpus else self._own_gpu()
        # The archive's kernels have been through all of this on such a GPU, or one of the same SMs.
        self._clean = {self._code(champion.genome) for champion in known_starts(gpu.name)}
        self._standing = Incumbents()
        for evaluation in past:
            self._remember(evaluation)
        self._climbs = self._new_climbs()
        self._hidden_seed: int | None = None
        if not proves_all:
            self._standing.begun.add_done_callback(self._prepare_finals)
        if not self._can_emulate:
            log.warning("no g++: kernels reach the GPU without the emulator's pre-flight; install g++.")

    def _own_gpu(self) -> GpuWorker:
        """The GPU that is here; with enough cores the processes that will compile compute for it first."""
        asked = self._asked
        has_many_cores = self._cores.count >= MANY_CORES
        worker = GpuWorker(
            checks=asked.checks,
            timed=asked.problem.workloads,
            seed=asked.seed,
            shares=has_many_cores,
        )
        if has_many_cores:
            for workload in reversed(asked.checks):  # the dearest first
                self._pool.submit(
                    keep_cases, worker.cases, workload, asked.seed, timeout_s=REFERENCES_LIMIT_S
                )
        return worker

    def __exit__(self, *_: object) -> None:
        """End all worker processes."""
        self._climbs.end()
        super().__exit__()
        self._worker.close()

    @property
    def ahead(self) -> int:
        """Two for each core, up to a limit: a proposal that is made early knows less."""
        return self._ahead or min(super().ahead, AHEAD * self._worker.at_once)

    def _next(self, pending: Sequence["Future[LadderProgress]"]) -> int:
        """The first that is done, so that what takes long keeps no other from being learnt; the oldest where
        the number in flight was asked for, by someone who wants the same proposals again.
        """
        if self._ahead:
            return super()._next(pending)
        wait(pending, return_when=FIRST_COMPLETED)
        return next(at for at, future in enumerate(pending) if future.done())

    def cancel(self) -> None:
        """As its base; what the GPU has not begun is dropped, too."""
        if self._queue:
            self._climbs.end()
            self._worker.cancel()
            super().cancel()
            self._climbs = self._new_climbs()

    def _new_climbs(self) -> Climbs:
        steps = Steps(
            prepare=self._prepare,
            preflight=self._preflight,
            asked=self._asked,
            worker=self._worker,
            now=(lambda task: task) if self._proves_all else self._standing.now,
            is_worth_it=self._is_worth_it,
            standing=self._standing,
            duplicates=self._duplicates,
        )
        return Climbs(steps, at_once=_MOST_CLIMBS)

    def _is_worth_it(self, score_us: float) -> bool:
        """Whether the emulator sees a kernel that the GPU has proven: what is not among the best need not."""
        if self._proves_all or not self._emulates_beside:
            return True
        return self._standing.is_among_the_best(score_us)

    @property
    def _emulates_beside(self) -> bool:
        """Whether the emulator sees genomes after the GPU has proven them, and not before."""
        return self._can_emulate and self._cores.count >= MANY_CORES

    def _remember(self, evaluation: Evaluation) -> None:
        """A proven kernel of an earlier process is a rival; where its code is still there, an anchor too."""
        if not evaluation.is_correct or evaluation.is_censored or evaluation.duplicate_of:
            return
        is_there = all(Path(build.cubin_path).is_file() for build in evaluation.builds)
        anchor = None
        if is_there:
            task = self._asked.task_of(evaluation.genome, evaluation.builds)
            anchor = anchor_of(task, evaluation.timings)
        if evaluation.score_us:
            self._standing.add(evaluation.score_us, anchor)

    def _begin(self, genome: Genome) -> "Future[LadderProgress]":
        return self._climbs.start(genome)

    def _prepare(self, genome: Genome) -> "Future[Ending[Preparation]]":
        preparing = self._preparing(genome, emulate=self._emulates(genome))
        preparing.add_done_callback(lambda done: self._note(genome, done))
        return preparing

    def _note(self, genome: Genome, done: "Future[Ending[Preparation]]") -> None:
        """A genome's code is clean while the emulator finds nothing wrong with any that shares it."""
        if done.cancelled() or done.exception() or done.result().value is None:
            return
        prepared = preparation_of(done.result())
        if prepared.failure and prepared.failure.rung is Rung.PREFLIGHT:
            self._clean.discard(self._code(genome))
        elif prepared.profiles:
            self._clean.add(self._code(genome))

    def _preparation_of(self, found: LadderProgress) -> Preparation:
        return found.prepared

    def _emulates(self, genome: Genome) -> bool:
        """Before the GPU sees it: until one whose code it shares was found clean."""
        return self._can_emulate and self._code(genome) not in self._clean

    def _code(self, genome: Genome) -> object:
        """What clean genomes vouch for: their family, or their structural core where the emulator will not
        see each genome that is proven.
        """
        if self._cores.count >= MANY_CORES:
            return genome.family
        return genome.family, load_family(genome.family).core(genome)

    def _preflight(self, genome: Genome, prepared: Preparation) -> "Future[Ending[Preparation]] | None":
        """Beside the genome's proof, unless it has been emulated or cores are few."""
        if prepared.profiles or not self._emulates_beside:
            return None
        arguments = (genome, self._problem, self._gpu, prepared, self._seed_of(genome))
        emulating = self._pool.submit(with_preflight, *arguments, timeout_s=PREPARE_LIMIT_S)
        emulating.add_done_callback(lambda done: self._note(genome, done))
        return emulating

    def _with_timings(self, evaluation: Evaluation, found: LadderProgress) -> Evaluation:
        assert found.outcome is not None, "only what failed before the GPU has none"
        bound = bound_of(estimates(evaluation.genome, found.prepared, self._problem, self._gpu))
        return replace(_with_outcome(evaluation, found.outcome), bound=bound)

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

    def _prepare_finals(self, _: object) -> None:
        """Once the search has begun, beside it: references of hidden shapes and libraries take seconds."""
        self._hidden_seed = secrets.randbits(48)
        self._worker.prepare_finals(self._asked.hidden_workloads(self._hidden_seed), self._hidden_seed)

    def begin_finals(self) -> int:
        """The seed of hidden shapes and of their data; no process that a candidate ran in has seen them."""
        seed, self._hidden_seed = self._hidden_seed, None
        if seed is not None:
            self._worker.begin_finals()
        return secrets.randbits(48) if seed is None else seed

    def in_turns(self, finalists: Sequence[GpuTask]) -> FinalReport | None:
        """Finalists and baselines timed in turns in a fresh process; None, and a warning, when one failed."""
        task = FinalTask(
            tuple(finalists), self._problem.workloads, self._gpu, self._seed, energy=self._energy
        )
        ending = self._worker.finalists(task).result()
        if ending.value is None:
            log.warning(
                "the finalists could not be timed again (%s): the search's own times stand.", ending.reason
            )
        return ending.value

    def task_of(self, genome: Genome) -> GpuTask:
        """What the GPU process needs of a genome; compiles it where that was not done."""
        return self._asked.task_of(genome, compile_only(genome, self._problem, self._gpu))

    def checked_on_hidden_shapes(self, task: GpuTask, genome: Genome, *, seed: int) -> GpuOutcome:
        """What became of the genome on shapes and data that are drawn from the seed."""
        checks = self._asked.hidden_launches(genome, seed=seed)
        return self._worker.submit(replace(task, checks=checks, timed=(), seed=seed)).result()


def _with_outcome(evaluation: Evaluation, outcome: GpuOutcome) -> Evaluation:
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
