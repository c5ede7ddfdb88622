"""The cores and the GPUs of a cluster, with the same calls as those of this machine. Decides nothing.

Cores answer calls in disposable processes of workers, as isolation.py makes them on one machine. One call is
on its way for each worker, so that what ends a worker takes no other call with it. The GPUs are all of one
model, and offer what gpu/process/worker.py offers of one. Who may be asked something beside others, and who
has to be alone, is told here too.
"""

import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from evoflash.errors import DeviceError
from evoflash.evaluation import Rung, Status
from evoflash.evaluators.cluster import tasks
from evoflash.evaluators.cluster.connection import (
    CPU,
    Connection,
    EndsWorkersError,
    WorkerGoneError,
    WorkerKind,
)
from evoflash.evaluators.cluster.tasks import (
    WorkerReply,
    WorkerSession,
    pack_finals,
    pack_task,
    unpack_preparation,
)
from evoflash.evaluators.prepare import Preparation
from evoflash.gpu.process.finals import FinalReport, FinalTask
from evoflash.gpu.process.outcome import GpuOutcome
from evoflash.gpu.process.rungs import GpuTask
from evoflash.gpu.process.warm_up import Jobs
from evoflash.isolation import Ending, Turns
from evoflash.workload import Workload


class Lanes:
    """Threads may enter at any time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside, self._want_alone, self._is_alone = 0, 0, False

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Beside others; waits while somebody is alone, or wants to be."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._want_alone or self._is_alone))
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """With nobody else inside; waits until all who are have left. Not to be entered from inside."""
        with self._changed:
            self._want_alone += 1
            self._changed.wait_for(lambda: not (self._inside or self._is_alone))
            self._want_alone -= 1
            self._is_alone = True
        try:
            yield
        finally:
            with self._changed:
                self._is_alone = False
                self._changed.notify_all()


log = logging.getLogger(__name__)
T = TypeVar("T")
TaskNow = Callable[[GpuTask], GpuTask]
_FINALS_TRIES = 2
_ON_THE_WAY = 2  # tasks for each GPU: while one runs, the next one's message is there already


def _identity(task: GpuTask) -> GpuTask:
    return task


class ClusterGpus:
    """Offers what GpuWorker does. Two tasks are on their way for each GPU, and the most urgent goes next."""

    def __init__(
        self,
        connection: Connection,
        kind: WorkerKind,
        *,
        checks: tuple[Workload, ...] = (),
        timed: tuple[Workload, ...] = (),
        seed: int = 0,
        jobs: Jobs | None = None,
    ) -> None:
        """The workloads and the seed of the tasks to come, as of GpuWorker."""
        self._connection, self._kind, self.at_once = connection, kind, 1
        self._session = WorkerSession(uuid.uuid4().hex, checks, timed, seed, jobs)
        self._turns = Turns("evoflash-cluster-gpu", at_once=_ON_THE_WAY)
        self._lanes = Lanes()
        self._finals_on: str | None = None  # the one worker that has them
        self._only: str | None = None  # the one worker that is asked, once finals have begun
        connection.watch(kind, self._hear)

    def screen(self, task: GpuTask, *, now: TaskNow = _identity) -> "Future[GpuOutcome]":
        """What a short look says of the task: CORRECT means worth a submit()."""
        return self._turns.submit(self._outcome, tasks.screen, task, now)

    def submit(self, task: GpuTask, *, now: TaskNow = _identity) -> "Future[GpuOutcome]":
        """The task's outcome after all rungs, whatever the kernel does; raises in result() only for a broken
        cluster. `now` is asked for the task as it stands when its turn has come.
        """
        return self._turns.submit(self._outcome, tasks.proven, task, now, first=True)

    def cancel(self) -> None:
        self._turns.cancel()

    def prepare_finals(self, hidden: tuple[Workload, ...], seed: int) -> None:
        """One of the GPUs makes ready for them, beside the search."""
        self._turns.submit(self._prepare_finals, hidden, seed, first=True)

    def begin_finals(self) -> "Future[None]":
        """From here on one GPU has all tasks."""
        return self._turns.submit(self._begin_finals, first=True)

    def finalists(self, task: FinalTask) -> "Future[Ending[FinalReport]]":
        """Long timings in turns on one GPU; with no tasks, the baselines alone."""
        return self._turns.submit(self._finals, task)

    def close(self) -> None:
        """Cancel the tasks that have not run, and have the workers free their GPUs."""
        self._turns.close()
        self._connection.tell(self._connection.workers(self._kind), tasks.close_session, self._session.id)

    def _hear(self, count: int) -> None:
        self.at_once = max(self.at_once, count)
        self._turns.widen(_ON_THE_WAY * self.at_once)

    def _outcome(
        self, function: Callable[..., WorkerReply[GpuOutcome]], task: GpuTask, now: TaskNow
    ) -> GpuOutcome:
        try:
            with self._lanes.beside():
                return self._ask(function, pack_task(now(task)))
        except EndsWorkersError:
            log.info("%s was on its way to workers that ended: it is asked again, alone.", task.genome_id)
        try:
            with self._lanes.alone():
                return self._ask(function, pack_task(now(task)))
        except EndsWorkersError as error:
            return GpuOutcome(task.genome_id, Status.RUNTIME, Rung.SMOKE, str(error), process_lost=True)

    def _prepare_finals(self, hidden: tuple[Workload, ...], seed: int) -> None:
        self._finals_on = self._first_worker()
        self._ask_only(self._finals_on, tasks.prepare_finals, hidden, seed)

    def _begin_finals(self) -> None:
        self._only = self._finals_on or self._first_worker()
        self._ask(tasks.begin_finals)

    def _finals(self, task: FinalTask) -> Ending[FinalReport]:
        self._only = self._only or self._first_worker()
        parcel = pack_finals(task)
        for _ in range(_FINALS_TRIES):
            try:
                return self._ask_only(self._only, tasks.time_finals, parcel)
            except WorkerGoneError:
                self._only = self._first_worker()
            except EndsWorkersError:
                break
        return Ending(None, Status.RUNTIME, "the worker that timed them ended")

    def _first_worker(self) -> str | None:
        return next(iter(self._connection.workers(self._kind)), None)

    def _ask(self, function: Callable[..., WorkerReply[T]], *args: Any) -> T:
        """The answer of any GPU, or of the one that has the finals while it is there."""
        while True:
            try:
                return self._ask_only(self._only, function, *args)
            except WorkerGoneError:
                self._only = self._first_worker()

    def _ask_only(self, worker: str | None, function: Callable[..., WorkerReply[T]], *args: Any) -> T:
        answer = self._connection.ask(self._kind, function, self._session, *args, on=worker)
        self._connection.took(answer.cpu_s)
        if answer.broken:
            self._give_up(answer)
            raise WorkerGoneError(answer.worker)
        return answer.value  # type: ignore[return-value]  # None where T is

    def _give_up(self, answer: WorkerReply[Any]) -> None:
        """Go on without a GPU that is lost, while there is another one."""
        there = set(self._connection.workers(self._kind))
        if there <= {answer.worker}:
            raise DeviceError(f"{answer.worker} was the last worker with its GPU: {answer.broken}")
        if answer.worker not in there:
            return
        log.warning("going on without the GPU of %s: %s", answer.worker, answer.broken)
        self._connection.retire(answer.worker)


class ClusterCores:
    """Workers without a GPU. They may come and go; `expected` of them are counted before they have come."""

    def __init__(self, connection: Connection, *, expected: int = 1) -> None:
        self._connection, self._lock = connection, threading.Lock()
        self._most, self._open = expected, list[ClusterProcesses]()
        connection.watch(CPU, self._hear)

    @property
    def count(self) -> int:
        """The most there have been: one that died will be back."""
        return self._most

    @property
    def ahead(self) -> int:
        """As on one machine; it grows when workers join."""
        return 2 * self._most

    def processes(self) -> "ClusterProcesses":
        """The workers' processes, as many as there are workers."""
        with self._lock:
            made = ClusterProcesses(self._connection, at_once=self._most)
            self._open = [*(each for each in self._open if not each.is_closed), made]
        return made

    def _hear(self, count: int) -> None:
        with self._lock:
            self._most = max(self._most, count)
            for each in self._open:
                each.widen(self._most)


class ClusterProcesses:
    """Offers what isolation.IsolatedPool does."""

    def __init__(self, connection: Connection, *, at_once: int) -> None:
        self._connection, self.is_closed = connection, False
        self._turns = Turns("evoflash-cluster-cpu", at_once=at_once)

    def widen(self, at_once: int) -> None:
        """Have so many calls on their way."""
        self._turns.widen(at_once)

    def submit(self, function: Callable[..., T], *args: Any, timeout_s: float) -> "Future[Ending[T]]":
        """Call the function in a process of some worker. An exception that it raises is raised by the
        future's result(); death of the process, or of worker after worker, is an Ending with Status.RUNTIME,
        no answer in time one with Status.TIMEOUT.
        """
        return self._turns.submit(self._ending, function, args, timeout_s)

    def close(self) -> None:
        """Cancel what has not begun, and wait for nothing: a worker ends what it does within its limit."""
        self.is_closed = True
        self._turns.close()

    def _ending(self, function: Callable[..., Any], args: tuple[Any, ...], timeout_s: float) -> Ending[Any]:
        try:
            parcel = self._connection.ask(CPU, tasks.call_isolated, function, args, timeout_s)
        except EndsWorkersError as error:
            return Ending(None, Status.RUNTIME, str(error))
        self._connection.took(parcel.cpu_s)
        return unpack_preparation(parcel) if isinstance(parcel.record.value, Preparation) else parcel.record
