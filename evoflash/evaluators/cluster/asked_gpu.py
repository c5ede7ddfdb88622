"""The functions that workers with a GPU run: what a search asks of its own GPU process, here in a worker's.

A worker keeps the GPU process of one search at a time, with its stand-bys and right answers, and ends it when
another search asks or none has asked for a while: a search that was killed leaves no process on the GPU.
"""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from evoflash.cuda.launcher import present_gpu, spec_of
from evoflash.errors import DeviceError
from evoflash.evaluators.cluster.cubins import Parcel, unpack_finals, unpack_task
from evoflash.evaluators.cluster.engine import distributed
from evoflash.gpu import GpuSpec
from evoflash.gpu_process.finals import FinalReport, FinalTask
from evoflash.gpu_process.process import Jobs
from evoflash.gpu_process.rungs import GpuOutcome, GpuTask
from evoflash.gpu_process.worker import GpuWorker
from evoflash.isolation import Ending
from evoflash.operation import Workload

T = TypeVar("T")

_IDLE_S = 300.0  # without a question; emulating before the next one takes far less


@dataclass(frozen=True, slots=True)
class Session:
    """One search, and what GPU processes make ready for it."""

    id: str
    checks: tuple[Workload, ...]
    timed: tuple[Workload, ...]
    seed: int
    jobs: Jobs | None = None  # None: the real ones


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """A value, or why this worker's GPU can give none any more."""

    value: T | None
    broken: str = ""
    worker: str = ""  # its address


class _Gpu:
    """This worker's GPU process. One thread uses it; a clock ends it."""

    def __init__(self) -> None:
        self.session = ""  # whose it is
        self._queue: GpuWorker | None = None
        self._lock, self._clock = threading.Lock(), threading.Timer(0, self.end)

    def of(self, session: Session) -> GpuWorker:
        """The queue of the session; another one's is closed."""
        with self._lock:
            self._clock.cancel()
            if self._queue is None or self.session != session.id:
                self._close()
                self._queue = GpuWorker(
                    checks=session.checks, timed=session.timed, seed=session.seed, jobs=session.jobs
                )
                self.session = session.id
            return self._queue

    def rest(self) -> None:
        """From now on count the time without a question."""
        self._clock.cancel()
        self._clock = threading.Timer(_IDLE_S, self.end)
        self._clock.daemon = True
        self._clock.start()

    def end(self) -> None:
        """Close what is open."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._queue is not None:
            self._queue.close()
        self._queue, self.session = None, ""


_gpu = _Gpu()


def end() -> None:
    """End the GPU process, if there is one."""
    _gpu.end()


async def closed(session_id: str) -> None:
    """The search is over: its GPU process ends, also in the middle of a task."""
    if _gpu.session == session_id:
        await asyncio.to_thread(_gpu.end)


def spec() -> GpuSpec:
    """The worker's GPU, with the driver's figures in place of the file's."""
    device = present_gpu()
    return replace(spec_of(device), **dict(device.attributes))  # type: ignore[arg-type]  # all are numbers


def screened(session: Session, parcel: Parcel[GpuTask]) -> Answer[GpuOutcome]:
    """What a short look says of the task."""
    return _answer(lambda: _gpu.of(session).screen(unpack_task(parcel)).result())


def proven(session: Session, parcel: Parcel[GpuTask]) -> Answer[GpuOutcome]:
    """The task's outcome after all rungs."""
    return _answer(lambda: _gpu.of(session).submit(unpack_task(parcel)).result())


def finals_prepared(session: Session, hidden: tuple[Workload, ...], seed: int) -> Answer[None]:
    """Begin what finals need, beside the search; returns at once."""
    return _answer(lambda: _gpu.of(session).prepare_finals(hidden, seed))


def finals_begun(session: Session) -> Answer[None]:
    """From here on tasks are about hidden workloads."""
    return _answer(lambda: _gpu.of(session).begin_finals().result())


def timed_again(session: Session, parcel: Parcel[FinalTask]) -> Answer[Ending[FinalReport]]:
    """Finalists and baselines in turns, in a fresh process."""
    return _answer(lambda: _gpu.of(session).finalists(unpack_finals(parcel)).result())


def _answer(question: Callable[[], T]) -> Answer[T]:
    try:
        return Answer(question())
    except DeviceError as error:  # this GPU's, which says nothing of the candidate and of other GPUs
        _gpu.end()
        return Answer(None, str(error), distributed.get_worker().address)
    finally:
        _gpu.rest()
