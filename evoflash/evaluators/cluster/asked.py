"""The functions that workers of a cluster run, with a GPU or without. They decide nothing.

They run in the one thread of a Dask worker. Without a GPU a call is made in a disposable process of the
worker's own. What a genome does to the disposable process does not reach the worker; one that takes the whole
worker with it all the same is blamed in connection.py. With a GPU a worker answers what a search asks of its
own GPU process.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Generic, TypeVar

from evoflash.errors import DeviceError
from evoflash.evaluators.cluster.connection import distributed
from evoflash.evaluators.cluster.cubins import Parcel, pack_preparation, unpack_finals, unpack_task
from evoflash.evaluators.prepare import Preparation
from evoflash.gpu.launcher import present_gpu, spec_of
from evoflash.gpu.process.finals import FinalReport, FinalTask
from evoflash.gpu.process.jobs import Jobs
from evoflash.gpu.process.outcome import GpuOutcome
from evoflash.gpu.process.rungs import GpuTask
from evoflash.gpu.process.worker import GpuWorker
from evoflash.isolation import Ending, IsolatedPool
from evoflash.operation import Workload
from evoflash.specs import GpuSpec


@cache
def _processes() -> IsolatedPool:
    return IsolatedPool(1)


def end() -> None:
    """Kill the disposable process, if there is one."""
    if _processes.cache_info().currsize:
        _processes().close()


def call_isolated(
    function: Callable[..., Any], arguments: tuple[Any, ...], timeout_s: float
) -> Parcel[Ending[Any]]:
    """The call's ending, as on one machine; builds bring their cubins with them."""
    ending = _processes().submit(function, *arguments, timeout_s=timeout_s).result()
    return pack_preparation(ending) if isinstance(ending.value, Preparation) else Parcel(ending, {})


T = TypeVar("T")

_IDLE_S = 300.0  # without a question; emulating before the next one takes far less


@dataclass(frozen=True, slots=True)
class WorkerSession:
    """One search, and what GPU processes make ready for it."""

    id: str
    checks: tuple[Workload, ...]
    timed: tuple[Workload, ...]
    seed: int
    jobs: Jobs | None = None  # None: the real ones


@dataclass(frozen=True, slots=True)
class WorkerReply(Generic[T]):
    """A value, or why this worker's GPU can give none any more."""

    value: T | None
    broken: str = ""
    worker: str = ""  # its address


class _Gpu:
    """This worker's GPU process. Its threads use it, and when none does a clock ends it."""

    def __init__(self) -> None:
        self.session = ""  # whose it is
        self._queue: GpuWorker | None = None
        self._lock, self._users = threading.Condition(), 0
        self._clock = threading.Timer(0, self.end)
        self.broken = ""  # why the GPU can be used no more

    @contextmanager
    def of(self, session: WorkerSession) -> Iterator[GpuWorker]:
        """The queue of the session; another one's is closed, once its questions are answered. After the last
        question the time without one is counted.
        """
        with self._lock:
            self._lock.wait_for(lambda: not self._users or self.session == session.id)
            self._clock.cancel()
            queue = self._queue_of(session)
            self._users += 1
        try:
            yield queue
        finally:
            with self._lock:
                self._users -= 1
                self._lock.notify_all()
                if not self._users:
                    self._clock = threading.Timer(_IDLE_S, self.end)
                    self._clock.daemon = True
                    self._clock.start()

    def _queue_of(self, session: WorkerSession) -> GpuWorker:
        if self._queue is None or self.session != session.id:
            self._close()
            self._queue = GpuWorker(
                checks=session.checks, timed=session.timed, seed=session.seed, jobs=session.jobs
            )
            self.session = session.id
        return self._queue

    def end(self) -> None:
        """Close what is open."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._queue is not None:
            self._queue.close()
        self._queue, self.session = None, ""


_gpu = _Gpu()


def end_gpu_process() -> None:
    """End the GPU process, if there is one."""
    _gpu.end()


async def close_session(session_id: str) -> None:
    """The search is over: its GPU process ends, also in the middle of a task."""
    if _gpu.session == session_id:
        await asyncio.to_thread(_gpu.end)


def spec() -> GpuSpec:
    """The worker's GPU, with the driver's figures in place of the file's."""
    device = present_gpu()
    return replace(spec_of(device), **dict(device.attributes))  # type: ignore[arg-type]  # all are numbers


def screen(session: WorkerSession, parcel: Parcel[GpuTask]) -> WorkerReply[GpuOutcome]:
    """What a short look says of the task."""
    return _answer(session, lambda queue: queue.screen(unpack_task(parcel)).result())


def proven(session: WorkerSession, parcel: Parcel[GpuTask]) -> WorkerReply[GpuOutcome]:
    """The task's outcome after all rungs."""
    return _answer(session, lambda queue: queue.submit(unpack_task(parcel)).result())


def prepare_finals(session: WorkerSession, hidden: tuple[Workload, ...], seed: int) -> WorkerReply[None]:
    """Begin what finals need, beside the search; returns at once."""
    return _answer(session, lambda queue: queue.prepare_finals(hidden, seed))


def begin_finals(session: WorkerSession) -> WorkerReply[None]:
    """From here on tasks are about hidden workloads."""
    return _answer(session, lambda queue: queue.begin_finals().result())


def time_finals(session: WorkerSession, parcel: Parcel[FinalTask]) -> WorkerReply[Ending[FinalReport]]:
    """Finalists and baselines in turns, in a fresh process."""
    return _answer(session, lambda queue: queue.finalists(unpack_finals(parcel)).result())


def _answer(session: WorkerSession, question: Callable[[GpuWorker], T]) -> WorkerReply[T]:
    try:
        with _gpu.of(session) as queue:
            return WorkerReply(question(queue))
    except DeviceError as error:  # this GPU's, which says nothing of the candidate and of other GPUs
        _gpu.broken = str(error)
        _gpu.end()
    except CancelledError:  # the other thread's question has found it broken, or the search is over
        pass
    return WorkerReply(None, _gpu.broken or "its search is over", distributed.get_worker().address)
