"""One process of a GPU after another: what crashes or hangs is replaced, and it is found out who is to blame.

A candidate, the process, the GPU, or its memory, which another program may fill. Stand-bys are kept ready, so
that a bad candidate costs the next one no time. Not covered: a kernel that brings down the machine, or writes
into another process's memory. What a process does first is in warm_up.py, what is checked and timed in
rungs.py and finals.py; several processes and the queue before them are worker.py's.
"""

import logging
import os
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from evoflash.errors import DeviceError
from evoflash.evaluation import Rung, Status, Verdict
from evoflash.gpu import launcher
from evoflash.gpu.launcher import share_gpu_by
from evoflash.gpu.memory import NoRoomError
from evoflash.gpu.process.outcome import GpuOutcome
from evoflash.gpu.process.rungs import GpuTask
from evoflash.gpu.process.warm_up import REFERENCES_LIMIT_S
from evoflash.isolation import Ending, IsolatedPool, raise_if_of_machine
from evoflash.validation.cases import share_in

log = logging.getLogger(__name__)
T = TypeVar("T")
_WARM_UP_LIMIT_S, _CONTEXTS_LIMIT_S = 120, 20
_TURNS = "turns"  # the file by which processes of one search share the GPU


@dataclass(slots=True)
class GpuProcess:
    """A process on its way to the GPU: it computes references, then makes its context."""

    pool: IsolatedPool
    references: "Future[Ending[None]]"
    function: Callable[[], None]
    warm: "Future[Ending[None]] | None" = None

    def warm_up(self, *, again: bool = False) -> "Future[Ending[None]]":
        """The context, in the making or made; `again` asks for a sign that it still is good."""
        if self.warm is None or again:
            self.warm = self.pool.submit(self.function, timeout_s=_WARM_UP_LIMIT_S)
        return self.warm


def start_process(
    function: Callable[..., None],
    *args: Any,
    warm_up: Callable[[], None],
    cases: str,
    gpu: str = "",
    after: GpuProcess | None = None,
) -> GpuProcess:
    """A process that calls the function before it has a context, and begins when another one has its
    references: before that, it would take cores from it. `cases` is the folder in which it shares test inputs
    and their right answers with others; it sees the GPU that CUDA_VISIBLE_DEVICES calls `gpu` alone, or all.
    """
    pool = IsolatedPool(1, initializer=_share, initargs=(cases, gpu))
    references: Future[Ending[None]] = Future()

    def begin(_: object) -> None:
        pool.submit(function, *args, timeout_s=REFERENCES_LIMIT_S).add_done_callback(end)

    def end(done: "Future[Ending[None]]") -> None:
        if done.cancelled():
            references.cancel()
        elif error := done.exception():
            references.set_exception(error)
        else:
            references.set_result(done.result())

    if after is None:
        begin(None)
    else:
        after.references.add_done_callback(begin)
    return GpuProcess(pool, references, warm_up)


def _share(cases: str, gpu: str) -> None:
    if gpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu  # the driver reads it when it begins, in this process
    share_in(cases)
    share_gpu_by(str(Path(cases) / f"{_TURNS}{gpu.replace('/', '-')}"))


STANDBYS = 2  # to be ready, one takes three seconds of a core
_LOOK_EVERY_S = 1.0
# One after the other, before the GPU counts as lost: an error can take all contexts with it.
_PROCESSES = STANDBYS + 2
_KEPT = "everything evaluated so far is kept; the same command continues"


class Standbys:
    """Processes that take the place of lost ones, so that the candidate after a bad one need not wait."""

    def __init__(self, begun: Callable[[], GpuProcess], waiting: deque[GpuProcess]) -> None:
        """`begun` begins one more process."""
        self._begun, self._waiting, self.is_closed = begun, waiting, False
        self.lost = 0  # processes so far
        self.is_before_finals = True  # whose timing keeps no context of others from being made
        for process in waiting:
            self._have_warmed(process)

    def _have_warmed(self, process: GpuProcess) -> None:
        """Its context is made as soon as it has its references, between two timings (gpu/launcher.py): later
        the next candidate would wait for it.
        """

        def warm_up(done: "Future[Ending[None]]") -> None:
            if self.is_before_finals and not done.cancelled():
                process.warm_up()

        process.references.add_done_callback(warm_up)

    def take(self) -> GpuProcess:
        """The one that has waited longest; another is begun. CancelledError once this is closed."""
        if self.is_closed:
            raise CancelledError
        taken = self._waiting.popleft()
        self._waiting.append(self._begun())
        self._have_warmed(self._waiting[-1])
        if self.is_closed:  # meanwhile: close() has seen neither
            for process in (taken, self._waiting[-1]):
                process.pool.close()
        return taken

    def wait_for_contexts(self) -> None:
        """Wait for those contexts that are being made, within limits: they would disturb the clock."""
        wait([each.warm for each in self._waiting if each.warm is not None], timeout=_CONTEXTS_LIMIT_S)

    def close(self) -> tuple[GpuProcess, ...]:
        """No more of them; those that wait, to be ended."""
        self.is_closed = True
        return tuple(self._waiting)


class Lane:
    """One process of a GPU after another; one call at a time."""

    def __init__(self, process: GpuProcess, standbys: Standbys, *, room_limit_s: float) -> None:
        """`room_limit_s`: how long another program may fill the GPU's memory."""
        self.process, self._standbys, self._room_limit_s = process, standbys, room_limit_s

    def outcome(
        self,
        task: GpuTask,
        rung: Rung,
        function: Callable[..., GpuOutcome],
        *args: Any,
        verdicts: tuple[Verdict, ...] = (),
    ) -> GpuOutcome:
        """The function's outcome, whatever the kernel does; of a process that was lost one on that rung.

        Where a process of another lane was lost meanwhile, its error may have taken this one's context with
        it: the call is made once more. DeviceError where processes die before a kernel begins in them.
        """
        began_s, lost = time.monotonic(), self._standbys.lost
        ending = self._call_and_recover(task, function, *args)
        if _is_lost(ending) and self._standbys.lost > lost + 1:
            ending = self._call_and_recover(task, function, *args)
        raise_if_of_machine(ending)
        if not _is_lost(ending) and ending.value is not None:
            return ending.value
        outcome = ending.value or GpuOutcome(
            task.genome_id, ending.status, rung, ending.reason, verdicts, process_lost=True
        )
        took = {"lost_s": f"{time.monotonic() - began_s:.3f}"}  # the time until another process could go on
        return replace(outcome, environment={**outcome.environment, **took})

    def _call_and_recover(
        self, task: GpuTask, function: Callable[..., GpuOutcome], *args: Any
    ) -> Ending[GpuOutcome]:
        """The call's ending; where the process was lost another one is ready."""
        ending = self._ending_of(task, function, *args)
        if _is_lost(ending):
            self._standbys.lost += 1
            self.replace()
            self.ensure_usable()
        return ending

    def _ending_of(
        self, task: GpuTask, function: Callable[..., GpuOutcome], *args: Any
    ) -> Ending[GpuOutcome]:
        try:
            return self.with_room(function, *args, timeout_s=task.limit_s)
        except NoRoomError as error:
            if _own_memory(task):
                return Ending(None, Status.RUNTIME, str(error))
            raise DeviceError(f"{error} {_KEPT.capitalize()}.") from None

    def with_room(self, function: Callable[..., T], *args: Any, timeout_s: float) -> Ending[T]:
        """The call's ending. While the GPU's memory is full, the call is made again in fresh processes."""
        end_s = time.monotonic() + self._room_limit_s
        self.ensure_usable(probe=False)
        ending, shortage = self._attempt(function, *args, timeout_s=timeout_s)
        if shortage:
            log.warning("%s Waiting %g s for it.", shortage, self._room_limit_s)
        while shortage and time.monotonic() < end_s:
            time.sleep(_LOOK_EVERY_S)
            self.replace()  # what the process keeps between candidates is freed with it
            self.ensure_usable(probe=False)
            ending, shortage = self._attempt(function, *args, timeout_s=timeout_s)
        if ending is None:
            raise NoRoomError(shortage)
        return ending

    def _attempt(
        self, function: Callable[..., T], *args: Any, timeout_s: float
    ) -> tuple[Ending[T] | None, str]:
        """The call's ending, if it had one, and what is said when the GPU's memory was full."""
        try:
            ending = self.process.pool.submit(function, *args, timeout_s=timeout_s).result()
        except (NoRoomError, MemoryError) as error:  # the second one is CuPy's
            return None, str(error)
        reason = ending.value.reason if isinstance(ending.value, GpuOutcome) else ""
        return ending, reason if _is_about_memory(reason) else ""

    def ensure_usable(self, *, probe: bool = True) -> None:
        """Have a process that can use the GPU, or raise DeviceError: a kernel must not be blamed for that.

        `probe`: its context, made before something went wrong, is tried again.
        """
        end_s = time.monotonic() + self._room_limit_s
        tries = _PROCESSES
        while reason := self._gpu_error(probe=probe):
            is_full = _is_about_memory(reason)
            tries -= not is_full
            if not tries or (is_full and time.monotonic() > end_s):
                raise DeviceError(f"the GPU cannot be used any more ({reason}): see nvidia-smi; {_KEPT}.")
            time.sleep(_LOOK_EVERY_S if is_full else 0.0)
            self.replace()

    def _gpu_error(self, *, probe: bool) -> str:
        """Why the process cannot use the GPU; empty when it can."""
        errors: tuple[type[Exception], ...] = (*launcher.cuda_errors(), MemoryError)
        try:
            ending = self.process.warm_up().result()
            if probe and ending.status is Status.CORRECT:
                ending = self.process.warm_up(again=True).result()
        except errors as error:
            return str(error).strip().splitlines()[0]
        return ending.reason

    def replace(self) -> None:
        """A stand-by takes the process's place. CancelledError where there are no more."""
        # The old process is closed first, and its end waited for: what hangs would slow the next candidate.
        self.process.pool.close()
        self.process = self._standbys.take()

    def switch_to(self, process: GpuProcess) -> None:
        """As replace(), by a process that has prepared itself for what is to come; nothing hangs here, so it
        makes its context while the old one's is taken down.
        """
        self.process.pool.begin_to_close()
        process.warm_up()
        self.process.pool.close()
        self.process = process


def _is_lost(ending: Ending[GpuOutcome]) -> bool:
    return ending.value is None or ending.value.process_lost


def _is_about_memory(reason: str) -> bool:
    return "out of memory" in reason.lower()


def _own_memory(task: GpuTask) -> int:
    """Bytes of the GPU's memory that the candidate asks for beside what every candidate is given."""
    parts = (launch for _, launches in (*task.checks, *task.timed) for launch in launches)
    return max((launch.workspace_bytes for launch in parts), default=0)
