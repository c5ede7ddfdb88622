"""What both evaluators share, from genomes prepared in worker processes to duplicates. Judges nothing.

What they may ask of processes and of a GPU, here or on a cluster, is promised here too: this machine keeps
these promises by isolation.py and gpu/process/worker.py, a Dask cluster by cluster/.
"""

import logging
import os
import secrets
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

from evoflash.evaluation import JUDGED, Basis, Build, Evaluation, Proposal, Rung, Status
from evoflash.evaluators.prepare import (
    PREPARE_LIMIT_S,
    Preparation,
    PreparationFailure,
    failure_as_finalist,
    prepare,
)
from evoflash.isolation import Ending, IsolatedPool, raise_if_of_machine
from evoflash.kernels import gxx
from evoflash.kernels.family import load_family
from evoflash.launch import LaunchConfig
from evoflash.problem import Problem
from evoflash.space import Genome
from evoflash.specs import GpuSpec
from evoflash.workload import Workload

if TYPE_CHECKING:
    from evoflash.gpu.process.finals import FinalReport, FinalTask
    from evoflash.gpu.process.outcome import GpuOutcome
    from evoflash.gpu.process.rungs import GpuTask

log = logging.getLogger(__name__)
T = TypeVar("T")
Judge = Callable[[Genome, int], Preparation]  # of a genome whose text was edited, with a seed
_NICENESS = 5
FINALIST_LIMIT_S = 180.0  # of a process's part of a finalist's runs, which take ten seconds or so


class Processes(Protocol):
    """Processes that may die without harm to the search; isolation.IsolatedPool has the promise in full."""

    def submit(self, function: Callable[..., T], *args: object, timeout_s: float) -> "Future[Ending[T]]":
        """Call the function in one of them."""

    def close(self) -> None:
        """End what runs; open calls are cancelled."""


class Cores(Protocol):
    """Where genomes are compiled and emulated."""

    @property
    def count(self) -> int:
        """Genomes that can be prepared at the same time; a cluster's workers may still be joining."""

    @property
    def ahead(self) -> int:
        """Proposals in flight that keep all of them busy."""

    def processes(self) -> Processes:
        """New processes, as many as can work at the same time."""


class GpuQueue(Protocol):
    """GPUs and the tasks that wait for them; gpu_process.worker.GpuWorker has the promises in full."""

    @property
    def at_once(self) -> int:
        """Tasks that run at the same time: GPUs."""

    def screen(self, task: "GpuTask", *, now: "Callable[[GpuTask], GpuTask]") -> "Future[GpuOutcome]":
        """What a short look says of the task."""

    def submit(self, task: "GpuTask", *, now: "Callable[[GpuTask], GpuTask]" = ...) -> "Future[GpuOutcome]":
        """The task's outcome after all rungs."""

    def cancel(self) -> None:
        """Drop the tasks that have not begun."""

    def prepare_finals(self, hidden: tuple[Workload, ...], seed: int) -> None:
        """Make ready, beside the search, for what comes after it."""

    def begin_finals(self) -> "Future[None]":
        """From here on tasks are about hidden workloads, and one GPU has them all."""

    def finalists(self, task: "FinalTask") -> "Future[Ending[FinalReport]]":
        """Long timings in turns in a fresh process."""

    def close(self) -> None:
        """End the processes; tasks that have not run are cancelled."""


class GpuQueues(Protocol):
    """Makes the queue of a search on GPUs that are elsewhere."""

    def __call__(
        self, *, checks: tuple[Workload, ...], timed: tuple[Workload, ...], seed: int
    ) -> GpuQueue: ...


@dataclass(frozen=True, slots=True)
class ThisMachine:
    """The cores of this machine."""

    count: int

    @property
    def ahead(self) -> int:
        """Enough that no core waits for a proposal, and compilation overlaps what comes after."""
        return 2 * self.count

    def processes(self) -> IsolatedPool:
        """A process for each core; the search and its GPU processes, which wait for them, go first."""
        return IsolatedPool(self.count, initializer=_give_way)


def _give_way() -> None:
    os.nice(_NICENESS)


@dataclass(frozen=True, slots=True)
class FinalistProof:
    """A finalist's runs in the emulator, under way in several processes; none where there is no emulator."""

    parts: "tuple[Future[Ending[PreparationFailure | None]], ...]" = ()

    def failure(self) -> PreparationFailure | None:
        """Why the kernel is wrong, once all parts are done."""
        return next(filter(None, map(_failure_of, [part.result() for part in self.parts])), None)


def _failing_part(judged: "Future[Ending[Preparation]]") -> "Future[Ending[PreparationFailure | None]]":
    """Of what a judge says, why the kernel is wrong."""
    found: Future[Ending[PreparationFailure | None]] = Future()

    def take(done: "Future[Ending[Preparation]]") -> None:
        if error := done.exception():
            found.set_exception(error)
        else:
            found.set_result(Ending(preparation_of(done.result()).failure))

    judged.add_done_callback(take)
    return found


def _failure_of(ending: "Ending[PreparationFailure | None]") -> PreparationFailure | None:
    raise_if_of_machine(ending)
    if ending.status is Status.TIMEOUT:  # a kernel that does not end is told by the emulator, far earlier
        log.warning("the emulator did not come to all runs of a finalist: %s.", ending.reason)
        return None
    if ending.status is Status.CORRECT:
        return ending.value
    return PreparationFailure(ending.status, Rung.PREFLIGHT, ending.reason)


class PreparingEvaluator(ABC, Generic[T]):
    """An evaluator whose genomes are prepared in worker processes, handed back oldest first, or as a subclass
    chooses.

    A subclass says what becomes of a genome while it is pending, a T, and adds the time. Evaluators are
    context managers.
    """

    basis: Basis
    model_version = ""  # of the performance model, where times are its estimates

    def __init__(
        self,
        problem: Problem,
        gpu: GpuSpec,
        *,
        seed: int,
        history: Iterable[Evaluation] = (),
        cores: Cores | None = None,
        ahead: int | None = None,
        proves_all: bool = False,
        judge: Judge | None = None,
    ) -> None:
        """`cores` compile and emulate; the default is a process for each of this machine's. `ahead` proposals
        are in flight: searches with the same seed and the same number propose the same, however many
        processes they have.

        `history` is what the run has evaluated before: duplicates of its kernels cost no budget, and its best
        are what candidates are screened against, unless `proves_all` asks for every check of each of them.
        `judge` prepares genomes whose text was edited, which no process of `cores` runs.
        """
        if cores is None:
            gxx.begin_runtime()  # before processes have started: the first emulation waits for it
        self.problem, self.gpu, self._seed = problem, gpu, seed
        self._told, self._proves_all = list(history), proves_all  # outcomes, in the order of their proposals
        self._duplicates = Duplicates(problem, gpu, self._told)
        self._cores, self._ahead = cores or ThisMachine(len(os.sched_getaffinity(0))), ahead
        self._pool = self._cores.processes()
        self._queue: deque[tuple[Proposal, Future[T]]] = deque()
        self._judge, self._judge_lock = judge, threading.Lock()

    @abstractmethod
    def _begin(self, genome: Genome) -> "Future[T]":
        """Start on a genome; returns at once."""

    @abstractmethod
    def _preparation_of(self, found: T) -> Preparation:
        """Of what became of a genome, its preparation."""

    @abstractmethod
    def _with_timings(self, evaluation: Evaluation, found: T) -> Evaluation:
        """The evaluation of a genome that came through its preparation."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    @property
    def ahead(self) -> int:
        """Enough that no worker waits for a proposal, and compilation overlaps what comes after."""
        return self._ahead or self._cores.ahead

    @property
    def pending(self) -> int:
        return len(self._queue)

    def submit(self, proposal: Proposal) -> None:
        self._queue.append((proposal, self._begin(proposal.genome)))

    def _begin_judging(self, genome: Genome, *, seed: int) -> "Future[Ending[Preparation]]":
        """What the judge says of an edited text, one after the other; a search that ends does not wait."""
        found: Future[Ending[Preparation]] = Future()

        def judge() -> None:
            assert self._judge is not None, "who proposes edited texts names who judges them"
            try:
                with self._judge_lock:
                    found.set_result(Ending(self._judge(genome, seed)))
            except Exception as error:  # of the machine: the search ends with it
                found.set_exception(error)

        threading.Thread(target=judge, name="evoflash-judge", daemon=True).start()
        return found

    def _preparing(self, genome: Genome, *, emulate: bool) -> "Future[Ending[Preparation]]":
        if genome.edits:
            return self._begin_judging(genome, seed=self._seed_of(genome))
        arguments = (genome, self.problem, self.gpu, emulate, self._seed_of(genome))
        return self._pool.submit(prepare, *arguments, timeout_s=PREPARE_LIMIT_S)

    def proof_as_finalist(self, genome: Genome) -> "FinalistProof":
        """Starts what takes too long for every candidate on one of the best, on all cores; returns now."""
        if genome.edits:  # on shapes and data that are drawn anew
            again = self._begin_judging(genome, seed=secrets.randbits(31))
            return FinalistProof((_failing_part(again),))
        arguments, parts = (genome, self.problem, self.gpu, self._seed_of(genome)), self._cores.count
        return FinalistProof(
            tuple(
                self._pool.submit(
                    failure_as_finalist,
                    *arguments,
                    (number, parts),
                    self.basis is Basis.MEASURED,
                    timeout_s=FINALIST_LIMIT_S,
                )
                for number in range(parts)
            )
        )

    def _seed_of(self, genome: Genome) -> int:
        # Inputs differ between genomes and between runs; within a run a genome always gets the same.
        return self._seed ^ int(genome.id[:12], 16)

    @property
    def has_arrived(self) -> bool:
        return self._queue[0][1].done() if self._queue else False

    def collect(self) -> tuple[Proposal, Evaluation]:
        """A pending proposal's outcome, waiting for it."""
        at = self._next([future for _, future in self._queue])
        proposal, future = self._queue[at]
        found = future.result()
        del self._queue[at]
        evaluation = self._evaluation(proposal.genome, found)
        self._duplicates.remember(evaluation)
        self._told.append(evaluation)
        return proposal, evaluation

    def _next(self, pending: Sequence["Future[T]"]) -> int:
        """Which of those pending, oldest first, is handed back next: the oldest, so that a search repeats
        itself whatever takes how long.
        """
        return 0

    def cancel(self) -> None:
        if self._queue:
            self._pool.close()
            self._pool = self._cores.processes()
            self._queue.clear()

    def _evaluation(self, genome: Genome, found: T) -> Evaluation:
        prepared = self._preparation_of(found)
        evaluation = Evaluation(
            genome=genome,
            problem=str(self.problem),
            gpu=self.gpu.name,
            basis=self.basis,
            status=Status.CORRECT,
            rung=Rung.DONE,
            builds=prepared.builds,
            verdicts=prepared.verdicts,
            model_version=self.model_version,
            environment={JUDGED: prepared.judged} if prepared.judged else {},
        )
        failure = prepared.failure
        if failure:
            return replace(evaluation, status=failure.status, rung=failure.rung, reason=failure.reason)
        original = self._duplicates.original_of(genome, prepared.builds)
        if original is not None:
            return replace(original, genome=genome, builds=prepared.builds, duplicate_of=original.genome.id)
        return self._with_timings(evaluation, found)


def preparation_of(ending: Ending[Preparation]) -> Preparation:
    """What a worker process prepared; where it died or hung over the genome, a failure that says so.

    DeviceError where processes die before anything of the genome has begun.
    """
    raise_if_of_machine(ending)
    rung = Rung.COMPILE if ending.status is Status.COMPILE else Rung.PREFLIGHT
    return ending.value or Preparation(failure=PreparationFailure(ending.status, rung, ending.reason))


class Duplicates:
    """Which genome first had a machine code and its launches: a second one costs no budget."""

    def __init__(self, problem: Problem, gpu: GpuSpec, history: Iterable[Evaluation]) -> None:
        """`history` is what the run has evaluated before."""
        self._launches = lru_cache(maxsize=4096)(partial(_launches, problem, gpu))
        self._first: dict[object, Evaluation] = {}
        for evaluation in history:
            self.remember(evaluation)

    def original_of(self, genome: Genome, builds: tuple[Build, ...]) -> Evaluation | None:
        """The evaluation of another genome that is the same kernel, if there was one."""
        if not _have_machine_code(builds):
            return None
        original = self._first.get(self.key_of(genome, builds))
        return original if original is not None and original.genome != genome else None

    def remember(self, evaluation: Evaluation) -> None:
        """Keep the first evaluation of each kernel, but for one without a time: a busy GPU's, an edit's."""
        is_known = evaluation.status is not Status.UNMEASURED and not evaluation.duplicate_of
        is_known = is_known and not (evaluation.genome.edits and evaluation.score_us is None)
        if is_known and _have_machine_code(evaluation.builds):
            self._first.setdefault(self.key_of(evaluation.genome, evaluation.builds), evaluation)

    def key_of(self, genome: Genome, builds: tuple[Build, ...]) -> object:
        """What two genomes have in common that are the same kernel: machine code and launches."""
        if not _have_machine_code(builds):
            return genome.id
        return tuple(build.text_sha for build in builds), self._launches(genome)


def _launches(problem: Problem, gpu: GpuSpec, genome: Genome) -> tuple[LaunchConfig, ...]:
    launches = launcher(genome, gpu)
    return tuple(launch for workload in problem.workloads for launch in launches(workload))


def launcher(genome: Genome, gpu: GpuSpec) -> Callable[[Workload], tuple[LaunchConfig, ...]]:
    """The genome's launches on workloads, of which those with one compile key see the same names."""
    family = load_family(genome.family)
    names = cache(lambda key: family.names(genome.as_dict(), key, gpu))
    return lambda workload: family.launches_of(names(workload.compile_key(gpu.arch)), workload)


def _have_machine_code(builds: tuple[Build, ...]) -> bool:
    return bool(builds) and all(build.text_sha for build in builds)
