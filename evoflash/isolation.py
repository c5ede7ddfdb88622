"""Run functions in processes of their own, so that a crash or a hang costs one call and not the search.

Covered: host crashes, exits, hangs (the process is killed, whatever it does). Not covered: what a process
does to files, to the GPU or to the driver. Knows nothing of CUDA: a process loads what its functions import.
"""

import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import Future, TimeoutError
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, TypeVar

import pebble

from evoflash.errors import DeviceError
from evoflash.evaluation import Status

T = TypeVar("T")

# Pebble asks a process to end before it kills it; one that hangs inside C never hears that.
_KILL_AFTER_S = 0.3
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
        self._waiting: set[Future[Any]] = set()

    def submit(self, function: Callable[..., T], *args: Any, timeout_s: float) -> "Future[Ending[T]]":
        """Call the function in a process. An exception that it raises is raised by the future's result();
        death of the process is an Ending with Status.RUNTIME, no answer in time one with Status.TIMEOUT.
        """
        if not self._pool.active:  # an idle process died and took pebble's pool with it
            self._pool = self._make()
        answer: Future[Ending[T]] = Future()
        self._waiting.add(answer)
        answer.add_done_callback(self._waiting.discard)
        inner = self._pool.schedule(function, args=args, timeout=timeout_s)
        inner.add_done_callback(lambda done: _settle(done, answer, timeout_s))
        return answer

    def close(self) -> None:
        """Kill the processes, whatever they do, and return once they are gone; open calls are cancelled."""
        for answer in list(self._waiting):
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
