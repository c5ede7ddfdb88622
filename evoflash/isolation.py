"""Run functions in processes of their own, so that a crash or a hang costs one call and not the search.

Covered: host crashes, exits, hangs (the process is killed, whatever it does). Not covered: what a process
does to files, to the GPU or to the driver. Knows nothing of CUDA: a process loads what its functions import.
"""

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, TimeoutError
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Generic, TypeVar

import pebble

from evoflash.errors import DeviceError
from evoflash.evaluation import Status

T = TypeVar("T")

# Pebble asks a process to end before it kills it; one that hangs inside C never hears that.
_KILL_AFTER_S = 0.3
# Pebble 5.2 gives up its whole pool when a process dies before the message that it took a task was read: a
# race of its threads. The calls under way are then made again in a new pool; what breaks two is no accident.
_TRIES = 2
_PR_SET_PDEATHSIG = 1
# One thread each for NumPy's BLAS: there is a process a core, and what they multiply is small. With the
# default of a thread a core, 40 evaluations on a 16-core machine burnt 22 CPU minutes, mostly spinning.
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Ending(Generic[T]):
    """How a call in another process ended: with a value, or with a status and a reason of one line."""

    value: T | None
    status: Status = Status.CORRECT
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Call:
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    timeout_s: float
    tries: int


class IsolatedPool:
    """Processes that may die. Every call gets an answer; a dead process is replaced.

    `initializer` runs in each process before its first call. Processes are spawned: functions and arguments
    must be picklable, and a script that makes a pool needs the usual `if __name__ == "__main__"`.
    """

    def __init__(
        self,
        max_workers: int,
        *,
        initializer: Callable[..., None] | None = None,
        initargs: tuple[Any, ...] = (),
    ) -> None:
        pebble.CONSTS.term_timeout = _KILL_AFTER_S
        for name in _ONE_THREAD:
            os.environ.setdefault(name, "1")  # inherited; this process has loaded its BLAS long ago
        spawn: Any = multiprocessing.get_context("spawn")
        self._make: Callable[[], pebble.ProcessPool] = lambda: pebble.ProcessPool(
            max_workers, initializer=_begin, initargs=(initializer, initargs), context=spawn
        )
        self._pool = self._make()
        self._lock = threading.Lock()  # calls are started by pebble's threads too
        self._is_closed = False
        self._under_way: dict[Future[Any], tuple[pebble.ProcessPool, _Call]] = {}

    def submit(self, function: Callable[..., T], *args: Any, timeout_s: float) -> "Future[Ending[T]]":
        """Call the function in a process. An exception that it raises is raised by the future's result();
        death of the process is an Ending with Status.RUNTIME, no answer in time one with Status.TIMEOUT.
        """
        answer: Future[Ending[T]] = Future()
        answer.add_done_callback(lambda done: self._under_way.pop(done, None))
        self._start(_Call(function, args, timeout_s, _TRIES), answer)
        return answer

    def _start(self, call: "_Call", answer: "Future[Any]") -> None:
        with self._lock:
            if not self._pool.active:  # a process died and took pebble's pool with it
                self._pool = self._make()
            pool = self._pool
            self._under_way[answer] = pool, call
            inner = pool.schedule(call.function, args=call.arguments, timeout=call.timeout_s)
        inner.add_done_callback(lambda done: self._end(done, pool, call, answer))

    def _end(self, done: Any, pool: pebble.ProcessPool, call: "_Call", answer: "Future[Any]") -> None:
        broke = not done.cancelled() and isinstance(done.exception(), BrokenProcessPool)
        if broke and call.tries > 1 and not self._is_closed:
            self._start_again(pool)
        elif not broke or self._under_way.get(answer, (pool,))[0] is pool:
            _settle(done, answer, call.timeout_s)

    def _start_again(self, broken: pebble.ProcessPool) -> None:
        """All calls of a broken pool, in a new one: also those that pebble had queued and forgot."""
        with self._lock:
            lost = [(answer, call) for answer, (pool, call) in self._under_way.items() if pool is broken]
            for answer, _ in lost:
                del self._under_way[answer]
        for answer, call in lost:
            self._start(replace(call, tries=call.tries - 1), answer)

    def close(self) -> None:
        """Kill the processes, whatever they do, and return once they are gone; open calls are cancelled."""
        self._is_closed = True
        for answer in list(self._under_way):
            answer.cancel()
        self._pool.stop()  # type: ignore[no-untyped-call]
        self._pool.join()

    def __enter__(self) -> "IsolatedPool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _begin(initializer: Callable[..., None] | None, initargs: tuple[Any, ...]) -> None:
    """Leave Ctrl-C to the parent, and die with it even when it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if initializer is not None:
        initializer(*initargs)


def _settle(done: Any, answer: "Future[Ending[T]]", timeout_s: float) -> None:
    if done.cancelled() or not answer.set_running_or_notify_cancel():
        answer.cancel()
        return
    error = done.exception()
    if error is None:
        answer.set_result(Ending(done.result()))
    elif isinstance(error, TimeoutError):
        answer.set_result(
            Ending(None, Status.TIMEOUT, f"no answer within {timeout_s:g} s; its process was killed")
        )
    elif isinstance(error, pebble.ProcessExpired):
        answer.set_result(Ending(None, Status.RUNTIME, _death(error.exitcode)))
    elif isinstance(error, BrokenProcessPool):
        answer.set_exception(
            DeviceError(
                "a worker process could not be kept running: see its message above; `evoflash doctor`."
            )
        )
    else:
        answer.set_exception(error)


def _death(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        return f"the process died of signal {-exit_code}"
    return f"the process ended with exit code {exit_code}"
