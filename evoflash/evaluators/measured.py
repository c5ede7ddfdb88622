"""Evaluates on the GPU that is present: prepared in worker processes, screened and proven in a GPU process.

Compilation, emulation and the GPU's work on different genomes overlap. Each genome has a thread of its own,
which only waits; it goes on as soon as its own last step is done, whatever was submitted before it. A kernel
whose machine code is known, or on its way, is not sent a second time. What the GPU is asked, and beside which
kernel, is in gpu_tasks.py.

With enough cores the emulator sees every genome that is proven, while the GPU does, and tells what bounds it;
a screen, which ends half of all genomes, does not wait for it. Before the GPU it sees a genome until it has
found nothing wrong with another of the same family; where cores are few, of the same structural core.
"""

import logging
import secrets
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    Future,
    ThreadPoolExecutor,
    wait,
)
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import which
from typing import Any

from evoflash.champions import known_starts
from evoflash.evaluation import Basis, Evaluation, Rung, Status
from evoflash.evaluators.gpu_tasks import Incumbents, TaskTemplate, anchor_of, task_template
from evoflash.evaluators.pipeline import (
    Cores,
    Duplicates,
    FinalistProof,
    GpuQueue,
    GpuQueues,
    Judge,
    PreparingEvaluator,
    preparation_of,
)
from evoflash.evaluators.prepare import (
    PREPARE_LIMIT_S,
    Preparation,
    bound_of,
    compile_only,
    estimates,
    with_preflight,
)
from evoflash.gpu.process import outcome as rung_times
from evoflash.gpu.process.finals import FinalReport, FinalTask
from evoflash.gpu.process.outcome import GpuOutcome, with_outcome
from evoflash.gpu.process.rungs import GpuTask
from evoflash.gpu.process.warm_up import REFERENCES_LIMIT_S, in_lots, keep_cases
from evoflash.gpu.process.worker import GpuWorker
from evoflash.isolation import Ending
from evoflash.kernels.family import load_family
from evoflash.kernels.nvrtc import has_its_code
from evoflash.problem import Problem
from evoflash.space import Genome
from evoflash.specs import GpuSpec
from evoflash.validation.plan import names_of

log = logging.getLogger(__name__)
# Proposals in flight for each GPU: eight a second leave it, half of them after 1.5 s in the emulator. Each
# proposal knows so many outcomes less (notes/lab-notes.md, 2026-11-24).
AHEAD = 16
_MOST_GPUS = 512
_MOST_CLIMBS = 4096  # threads, of which no more are started than genomes are in flight
MANY_CORES = 4  # preparing a genome takes a core two seconds
_HIDDEN_LIMIT_S = 90.0  # for a finalist's hidden shapes, which take a second


@dataclass(frozen=True, slots=True)
class LadderProgress:
    """How far a genome came; the outcome is None where it failed before the GPU, or in pre-flight."""

    prepared: Preparation
    outcome: GpuOutcome | None = None


@dataclass(frozen=True, slots=True)
class Steps:
    """What a genome goes through. `preflight` is None where it needs none before its proof."""

    prepare: Callable[[Genome], "Future[Ending[Preparation]]"]
    preflight: Callable[[Genome, Preparation], "Future[Ending[Preparation]] | None"]
    asked: TaskTemplate
    worker: GpuQueue
    now: Callable[[GpuTask], GpuTask]  # with what a task has to keep up with when its turn comes
    is_worth_it: Callable[[float], bool]  # whether a kernel with that time in us goes through the emulator
    standing: Incumbents
    duplicates: Duplicates


class Climbs:
    """All genomes that are under way."""

    def __init__(self, steps: Steps, *, at_once: int) -> None:
        self._steps, self._lock, self._is_over = steps, threading.Lock(), False
        self._threads = ThreadPoolExecutor(max_workers=at_once, thread_name_prefix="evoflash-climb")
        self._kernels: dict[object, Future[LadderProgress]] = {}
        self._begun: deque[Future[LadderProgress]] = deque(maxlen=_MOST_GPUS)  # the newest of them

    def start(self, genome: Genome) -> "Future[LadderProgress]":
        preparing = self._steps.prepare(genome)
        gpus = self._steps.worker.at_once
        before = self._begun[-gpus] if gpus <= len(self._begun) else None
        self._begun.append(self._threads.submit(self._climb, genome, preparing, before))
        return self._begun[-1]

    def end(self) -> None:
        """Send nothing more to the GPU. What waits for a process ends when its pool is closed."""
        self._is_over = True
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _climb(
        self,
        genome: Genome,
        preparing: "Future[Ending[Preparation]]",
        before: "Future[LadderProgress] | None",
    ) -> LadderProgress:
        prepared = preparation_of(preparing.result())
        if prepared.failure or self._steps.duplicates.original_of(genome, prepared.builds):
            return LadderProgress(prepared)
        if before is not None:  # until one is proven each GPU has them one by one: the first is the likeliest
            either: tuple[Future[Any], ...] = (before, self._steps.standing.begun)
            wait(either, return_when=FIRST_COMPLETED)
        mine: Future[LadderProgress] = Future()
        key = self._steps.duplicates.key_of(genome, prepared.builds)
        with self._lock:
            kernel = self._kernels.setdefault(key, mine)
        if kernel is not mine:
            twin = kernel.result()
            return replace(twin, prepared=replace(twin.prepared, builds=prepared.builds))
        try:
            mine.set_result(self._on_the_gpu(genome, prepared))
        except BaseException as error:  # its twins wait for it, too
            mine.set_exception(error)
        return mine.result()

    def _on_the_gpu(self, genome: Genome, prepared: Preparation) -> LadderProgress:
        steps = self._steps
        task = steps.asked.task_of(genome, prepared.builds)
        self._check_not_over()
        screened = steps.worker.screen(task, now=steps.now).result()
        if screened.status is not Status.CORRECT:
            return LadderProgress(prepared, screened)
        self._check_not_over()
        proof = steps.worker.submit(task, now=steps.now).result()
        if proof.status is not Status.CORRECT:
            return self._final_progress(prepared, proof, screened)
        anchor = anchor_of(task, proof.timings)
        steps.standing.offer(anchor)
        if proof.score_us is None:
            return self._final_progress(prepared, proof, screened)
        is_emulated = bool(prepared.profiles or prepared.judged)
        if not is_emulated and not steps.is_worth_it(proof.score_us):
            return self._final_progress(prepared, _let_be(proof), screened)
        steps.standing.add(proof.score_us, anchor)  # others need not wait for the emulator
        if preflight := steps.preflight(genome, prepared):
            prepared = replace(preparation_of(preflight.result()), builds=prepared.builds)
        if prepared.failure:
            steps.standing.take_back(proof.score_us)
            return LadderProgress(prepared)
        return self._final_progress(prepared, proof, screened)

    def _final_progress(
        self, prepared: Preparation, proof: GpuOutcome, screened: GpuOutcome
    ) -> LadderProgress:
        spent = rung_times.together(proof.environment, screened.environment)
        return LadderProgress(prepared, replace(proof, environment=spent))

    def _check_not_over(self) -> None:
        if self._is_over:
            raise CancelledError


def _let_be(proof: GpuOutcome) -> GpuOutcome:
    """Of a kernel that is right on the GPU and too slow for the emulator, which it was not shown to yet."""
    reason = f"too slow to be emulated: {proof.score_us:.2f} us"
    return replace(proof, status=Status.SCREENED, rung=Rung.TIMING, reason=reason)


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
        cores: Cores | None = None,
        ahead: int | None = None,
        devices: Sequence[str] = ("",),
        gpus: GpuQueues | None = None,
        proves_all: bool = False,
        energy: bool = False,
        judge: Judge | None = None,
    ) -> None:
        """As its base. `devices` are the GPUs here, as CUDA_VISIBLE_DEVICES calls them, and `gpus` others
        than those here; `energy` asks for that of the finalists.
        """
        self._can_emulate = which("g++") is not None
        super().__init__(
            problem,
            gpu,
            seed=seed,
            history=history,
            cores=cores,
            ahead=ahead,
            proves_all=proves_all,
            judge=judge,
        )
        self._asked, self._energy = task_template(problem, gpu, seed=seed), energy
        checks, timed = self._asked.checks, problem.workloads
        self._worker = gpus(checks=checks, timed=timed, seed=seed) if gpus else self._own_gpus(devices)
        # The archive's kernels have been through all of this on such a GPU, or one of the same SMs.
        self._clean = {self._code(champion.genome) for champion in known_starts(gpu.name)}
        self._standing = Incumbents()
        for evaluation in self._told:
            self._remember(evaluation)
        self._climbs = self._new_climbs()
        self._hidden_seed: int | None = None
        self._proving: tuple[Future[Any], ...] = ()  # finalists, in the emulator
        if not proves_all:
            self._standing.begun.add_done_callback(self._prepare_finals)
        if not self._can_emulate:
            log.warning("no g++: kernels reach the GPU without the emulator's pre-flight; install g++.")

    def _own_gpus(self, devices: Sequence[str]) -> GpuWorker:
        """GPUs that are here; with enough cores the processes that will compile compute for them first."""
        asked = self._asked
        has_many_cores = self._cores.count >= MANY_CORES
        worker = GpuWorker(
            checks=asked.checks,
            timed=asked.problem.workloads,
            seed=asked.seed,
            shares=has_many_cores,
            gpus=devices,
        )
        if has_many_cores:
            for workload in sorted(asked.checks, key=lambda each: -each.flops):  # the dearest first
                for names in in_lots(names_of(workload)):
                    self._pool.submit(
                        keep_cases, worker.cases, workload, names, asked.seed, timeout_s=REFERENCES_LIMIT_S
                    )
        return worker

    def __exit__(self, *_: object) -> None:
        self._climbs.end()
        super().__exit__()
        self._worker.close()

    @property
    def ahead(self) -> int:
        """Two for each core, up to a limit: a proposal that is made early knows less."""
        return self._ahead or min(super().ahead, AHEAD * self._worker.at_once)

    @property
    def has_arrived(self) -> bool:
        """As its base, of any of them."""
        return super().has_arrived if self._ahead else any(future.done() for _, future in self._queue)

    def _next(self, pending: Sequence["Future[LadderProgress]"]) -> int:
        """The first that is done, so that what takes long keeps no other from being learnt; the oldest where
        the number in flight was asked for, by someone who wants the same proposals again.
        """
        if self._ahead:
            return super()._next(pending)
        if not self.has_arrived:
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
        is_there = all(map(has_its_code, evaluation.builds))
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
        if genome.edits or done.cancelled() or done.exception() or done.result().value is None:
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
        if prepared.profiles or prepared.judged or not self._emulates_beside:
            return None
        arguments = (genome, self.problem, self.gpu, prepared, self._seed_of(genome))
        emulating = self._pool.submit(with_preflight, *arguments, timeout_s=PREPARE_LIMIT_S)
        emulating.add_done_callback(lambda done: self._note(genome, done))
        return emulating

    def _with_timings(self, evaluation: Evaluation, found: LadderProgress) -> Evaluation:
        assert found.outcome is not None, "only what failed before the GPU has none"
        bound = bound_of(estimates(evaluation.genome, found.prepared, self.problem, self.gpu))
        return replace(with_outcome(evaluation, found.outcome), bound=bound)

    def _prepare_finals(self, _: object) -> None:
        """Once the search has begun, beside it: references of hidden shapes and libraries take seconds."""
        self._hidden_seed = secrets.randbits(48)
        self._worker.prepare_finals(self._asked.hidden_workloads(self._hidden_seed), self._hidden_seed)

    def begin_finals(self) -> int:
        """The seed of hidden shapes and of their data; no process that a candidate ran in sees them, which is
        why this waits for another one.
        """
        seed, self._hidden_seed = self._hidden_seed, None
        if seed is not None:
            self._worker.begin_finals().result()
        return secrets.randbits(48) if seed is None else seed

    def in_turns(self, finalists: Sequence[GpuTask]) -> FinalReport | None:
        """Finalists and baselines timed in turns in a fresh process; None, and a warning, when one failed."""
        task = FinalTask(tuple(finalists), self.problem.workloads, self.gpu, self._seed, energy=self._energy)
        with file_until(self._proving) as busy:
            ending = self._worker.finalists(replace(task, busy=busy)).result()
        if ending.value is None:
            log.warning(
                "the finalists could not be timed again (%s): the search's own times stand.", ending.reason
            )
        return ending.value

    def proof_as_finalist(self, genome: Genome) -> FinalistProof:
        """As its base, where there is an emulator."""
        proof = super().proof_as_finalist(genome) if self._can_emulate else FinalistProof()
        self._proving += proof.parts
        return proof

    def task_of(self, genome: Genome) -> GpuTask:
        """What the GPU process needs of a genome; compiles it where that was not done."""
        return self._asked.task_of(genome, compile_only(genome, self.problem, self.gpu))

    def checked_on_hidden_shapes(self, task: GpuTask, genome: Genome, *, seed: int) -> GpuOutcome:
        """What became of the genome on shapes and data that are drawn from the seed."""
        checks = self._asked.hidden_launches(genome, seed=seed)
        hidden = replace(task, checks=checks, timed=(), seed=seed, limit_s=_HIDDEN_LIMIT_S)
        return self._worker.submit(hidden).result()


@contextmanager
def file_until(calls: Collection["Future[Any]"]) -> Iterator[str]:
    """A file that is there until all the calls are done; "" where they are."""
    with tempfile.TemporaryDirectory(prefix="evoflash-") as folder:
        file = Path(folder) / "busy"

        def end() -> None:
            wait(calls)
            file.unlink(missing_ok=True)

        if all(call.done() for call in calls):
            yield ""
            return
        file.touch()
        threading.Thread(target=end, name="evoflash-busy", daemon=True).start()
        yield str(file)
