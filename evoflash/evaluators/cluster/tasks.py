"""The functions that workers of a cluster run, and how questions and answers travel. They decide nothing.

They run in the one thread of a Dask worker. Without a GPU a call is made in a disposable process of the
worker's own. What a genome does to the disposable process does not reach the worker; one that takes the whole
worker with it all the same is blamed in connection.py. With a GPU a worker answers what a search asks of its
own GPU process.

Machine code is sent along with the records that name its files, for another machine has not got those files.
A file's path has the key of its cache in it, so a path that exists already holds the same bytes.
"""

import asyncio
import hashlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from evoflash.errors import DeviceError
from evoflash.evaluators.cluster.connection import distributed
from evoflash.evaluators.prepare import Preparation
from evoflash.gpu.launcher import present_gpu, spec_of
from evoflash.gpu.process.finals import FinalReport, FinalTask
from evoflash.gpu.process.outcome import GpuOutcome
from evoflash.gpu.process.rungs import GpuTask
from evoflash.gpu.process.warm_up import Jobs
from evoflash.gpu.process.worker import GpuWorker
from evoflash.isolation import Ending, IsolatedPool, cpu_seconds
from evoflash.paths import cache_dir, cache_error
from evoflash.specs import GpuSpec
from evoflash.workload import Workload

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Parcel(Generic[T]):
    """A record, and the contents of the files that it names by their paths."""

    record: T
    files: Mapping[str, bytes]
    cpu_s: float = 0.0  # that the worker took for it; 0 where nobody looked


def pack_preparation(ending: Ending[Preparation]) -> Parcel[Ending[Preparation]]:
    """What a worker process made of a genome, with its cubins."""
    builds = ending.value.builds if ending.value else ()
    return Parcel(ending, _read(build.cubin_path for build in builds))


def unpack_preparation(parcel: Parcel[Ending[Preparation]]) -> Ending[Preparation]:
    """The same on this machine, with files of this machine."""
    prepared, here = parcel.record.value, _place_files(parcel.files)
    if prepared is None:
        return parcel.record
    builds = tuple(replace(each, cubin_path=here.get(each.cubin_path, "")) for each in prepared.builds)
    return replace(parcel.record, value=replace(prepared, builds=builds))


def pack_task(task: GpuTask) -> Parcel[GpuTask]:
    """A task with its cubins, and those of the kernel that it is timed beside."""
    return Parcel(task, _read(_paths(task)))


def unpack_task(parcel: Parcel[GpuTask]) -> GpuTask:
    return _with_local_paths(parcel.record, _place_files(parcel.files))


def pack_finals(task: FinalTask) -> Parcel[FinalTask]:
    """The finalists with their cubins, as of a task."""
    return Parcel(task, _read(path for each in task.tasks for path in _paths(each)))


def unpack_finals(parcel: Parcel[FinalTask]) -> FinalTask:
    here = _place_files(parcel.files)
    return replace(parcel.record, tasks=tuple(_with_local_paths(each, here) for each in parcel.record.tasks))


def _paths(task: GpuTask) -> tuple[str, ...]:
    beside = _paths(task.anchor.task) if task.anchor else ()
    return (*(path for _, path in task.cubins), *beside)


def _with_local_paths(task: GpuTask, here: Mapping[str, str]) -> GpuTask:
    anchor = task.anchor and replace(task.anchor, task=_with_local_paths(task.anchor.task, here))
    return replace(
        task, cubins=tuple((key, here.get(path, path)) for key, path in task.cubins), anchor=anchor
    )


def _read(paths: Iterable[str]) -> dict[str, bytes]:
    return {path: Path(path).read_bytes() for path in paths if path}


def _place_files(files: Mapping[str, bytes]) -> dict[str, str]:
    try:
        return {
            path: path if _holds(Path(path), cubin) else str(_keep_cubin(cubin))
            for path, cubin in files.items()
        }
    except OSError as error:
        raise cache_error(error) from None


def _keep_cubin(cubin: bytes) -> Path:
    name = hashlib.sha256(cubin).hexdigest()
    path = cache_dir() / "received" / name[:2] / f"{name}.cubin"
    if not _holds(path, cubin):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, beside = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        with os.fdopen(handle, "wb") as file:
            file.write(cubin)
        os.rename(beside, path)  # a half-written file cannot be taken for a kernel
    return path


def _holds(path: Path, content: bytes) -> bool:
    return path.is_file() and path.read_bytes() == content


@cache
def _processes() -> IsolatedPool:
    return IsolatedPool(1)


def call_isolated(
    function: Callable[..., Any], arguments: tuple[Any, ...], timeout_s: float
) -> Parcel[Ending[Any]]:
    """The call's ending, as on one machine; builds bring their cubins with them."""
    began_s = cpu_seconds()
    ending = _processes().submit(function, *arguments, timeout_s=timeout_s).result()
    parcel = pack_preparation(ending) if isinstance(ending.value, Preparation) else Parcel(ending, {})
    return replace(parcel, cpu_s=max(0.0, cpu_seconds() - began_s))


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
    cpu_s: float = 0.0  # that the worker took since its reply before, its GPU process included


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
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._queue is not None:
            self._queue.close()
        self._queue, self.session = None, ""


_gpu = _Gpu()


class _UntoldCpu:
    """CPU seconds of this worker that no reply told of. Questions overlap, so none has seconds of its own."""

    def __init__(self) -> None:
        self._lock, self._session, self._told_s = threading.Lock(), "", 0.0

    def begin(self, session_id: str) -> None:
        """What was taken before the first question of a search is not that search's."""
        with self._lock:
            if session_id != self._session:
                self._session, self._told_s = session_id, cpu_seconds()

    def take(self) -> float:
        """Those since the last call; a process that was killed takes its seconds with it."""
        with self._lock:
            now_s = max(cpu_seconds(), self._told_s)
            spent_s, self._told_s = now_s - self._told_s, now_s
        return spent_s


_untold = _UntoldCpu()


def end() -> None:
    """Kill the disposable process and end the GPU process, where there are any."""
    if _processes.cache_info().currsize:
        _processes().close()
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
    return _answer(session, lambda queue: queue.screen(unpack_task(parcel)).result())


def proven(session: WorkerSession, parcel: Parcel[GpuTask]) -> WorkerReply[GpuOutcome]:
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
    _untold.begin(session.id)
    try:
        with _gpu.of(session) as queue:
            value = question(queue)
            return WorkerReply(value, cpu_s=_untold.take())
    except DeviceError as error:  # this GPU's, which says nothing of the candidate and of other GPUs
        _gpu.broken = str(error)
        _gpu.end()
    except CancelledError:  # the other thread's question has found it broken, or the search is over
        pass
    return WorkerReply(None, _gpu.broken or "its search is over", distributed.get_worker().address)
