"""The GPU process and its stand-bys: a kernel that crashes or hangs costs one candidate and not the search.

Covered: illegal addresses and every other CUDA error (the context is never used again), hangs (the process
is killed), host crashes. Two processes stand by, so that the candidate after a bad one need not wait; the one
that takes over is asked whether the GPU still answers before the bad one is blamed. A GPU that is gone, or
stays full of other people's memory, is a DeviceError. Not covered: a kernel that brings down the machine, or
writes into another process's memory. What is checked and timed is in rungs.py and finals.py.
"""

import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from types import TracebackType
from typing import Any, TypeVar

from evoflash.cuda import launcher
from evoflash.cuda.guarded_buffer import NoRoomError
from evoflash.errors import DeviceError
from evoflash.evaluation import Rung, Status, Verdict
from evoflash.gpu_process.finals import FinalReport, FinalTask
from evoflash.gpu_process.finals_retry import rounds
from evoflash.gpu_process.process import GpuProcess, Jobs, started
from evoflash.gpu_process.rungs import GpuOutcome, GpuTask
from evoflash.gpu_process.shared_cases import SharedCases
from evoflash.gpu_process.turns import Turns
from evoflash.isolation import Ending
from evoflash.operation import Workload

log = logging.getLogger(__name__)
T = TypeVar("T")

_ROOM_LIMIT_S = 30.0  # how long another program may fill the GPU's memory
_LOOK_EVERY_S = 1.0
_STANDBYS = 2  # to be ready, one takes three seconds of a core
_PROCESSES = (
    _STANDBYS + 2
)  # one after the other, before the GPU counts as lost: an error can take all contexts with it
_KEPT = "everything evaluated so far is kept; the same command continues"


TaskNow = Callable[[GpuTask], GpuTask]


def _unchanged(task: GpuTask) -> GpuTask:
    return task


class GpuWorker:
    """The GPU process, its stand-bys, and the queue before them. One task runs at a time, in order, but whole
    ladders before short looks.
    """

    at_once = 1  # tasks that run at the same time

    def __init__(
        self,
        *,
        checks: tuple[Workload, ...] = (),
        timed: tuple[Workload, ...] = (),
        seed: int = 0,
        jobs: Jobs | None = None,
        room_limit_s: float = _ROOM_LIMIT_S,
    ) -> None:
        """The workloads and the seed of the tasks to come: their references are computed beforehand."""
        if jobs is None:
            launcher.present_gpu()  # without a GPU the error comes from here and not from a process
        self._jobs, self._room_limit_s = jobs or Jobs(), room_limit_s
        self._reference_args, self._is_closed = (checks, timed, seed), False
        self._turns = Turns("evoflash-gpu")
        self._cases = SharedCases(timed, seed)
        self._active = self._begun(hurries=True)
        self._standbys = deque(self._begun(after=self._active) for _ in range(_STANDBYS))
        self._for_hidden: GpuProcess | None = None
        self._for_finals: GpuProcess | None = None

    @property
    def cases(self) -> str:
        """The folder in which its processes share what candidates are compared with; others may add to it."""
        return self._cases.path

    def submit(self, task: GpuTask, *, now: TaskNow = _unchanged) -> "Future[GpuOutcome]":
        """The task's outcome after all rungs, whatever the kernel does; raises in result() only for a broken
        machine. `now` is asked for the task as it stands when its turn has come.
        """
        return self._turns.submit(lambda: self._evaluate(now(task)), first=True)

    def screen(self, task: GpuTask, *, now: TaskNow = _unchanged) -> "Future[GpuOutcome]":
        """What a short look says of the task (screening.py): CORRECT means worth a submit()."""
        return self._turns.submit(lambda: self._screened(now(task)))

    def cancel(self) -> None:
        """Drop the tasks that have not begun."""
        self._turns.cancel()

    def prepare_finals(self, hidden: tuple[Workload, ...], seed: int) -> None:
        """Begin two processes beside the search, for begin_finals() and finalists(): one computes references
        of the hidden workloads, one loads the libraries. Neither touches the GPU before its turn.
        """
        if self._is_closed:
            return
        references = self._jobs.precompute_references
        self._for_hidden = self._starting(references, hidden, (), seed)
        _, timed, timed_seed = self._reference_args
        self._for_finals = self._starting(self._jobs.prepare_finals, timed, timed_seed)

    def begin_finals(self) -> "Future[None]":
        """From here on tasks meet the process that knows the hidden workloads, where there is one."""
        return self._turns.submit(self._switch_to_hidden, first=True)

    def finalists(self, task: FinalTask) -> "Future[Ending[FinalReport]]":
        """Long timings in turns in a fresh process; with no tasks, the baselines alone."""
        return self._turns.submit(rounds, task, self._finals)

    def _screened(self, task: GpuTask) -> GpuOutcome:
        if task.anchor is None or task.rival_us is None:  # nothing to be slower than: no process is asked
            return GpuOutcome(task.genome_id, Status.CORRECT, Rung.SMOKE)
        return self._call(task, Rung.SMOKE, self._jobs.screen, task)

    def _evaluate(self, task: GpuTask) -> GpuOutcome:
        for standby in self._standbys:
            standby.warm_up_if_ready()  # now, because a context in the making would disturb the clock
        checked = self._call(task, Rung.SMOKE, self._jobs.check, task)
        if checked.status is not Status.CORRECT or not task.timed:
            return checked
        self._wait_for_contexts()
        timing = self._jobs.time_correct
        return self._call(task, Rung.TIMING, timing, task, checked, verdicts=checked.verdicts)

    def _call(
        self,
        task: GpuTask,
        rung: Rung,
        function: Callable[..., GpuOutcome],
        *args: Any,
        verdicts: tuple[Verdict, ...] = (),
    ) -> GpuOutcome:
        began_s = time.monotonic()
        ending = self._ending_of(task, function, *args)
        if ending.value is not None and not ending.value.process_lost:
            return ending.value
        self._replace()
        self._ensure_usable()
        outcome = ending.value or GpuOutcome(
            task.genome_id, ending.status, rung, ending.reason, verdicts, process_lost=True
        )
        took = {"lost_s": f"{time.monotonic() - began_s:.3f}"}  # the time until another process could go on
        return replace(outcome, environment={**outcome.environment, **took})

    def _ending_of(
        self, task: GpuTask, function: Callable[..., GpuOutcome], *args: Any
    ) -> Ending[GpuOutcome]:
        try:
            return self._with_room(function, *args, timeout_s=task.limit_s)
        except NoRoomError as error:
            if _own_memory(task):
                return Ending(None, Status.RUNTIME, str(error))
            raise DeviceError(f"{error} {_KEPT.capitalize()}.") from None

    def _with_room(self, function: Callable[..., T], *args: Any, timeout_s: float) -> Ending[T]:
        """The call's ending. While the GPU's memory is full, the call is made again in fresh processes."""
        end_s = time.monotonic() + self._room_limit_s
        self._ensure_usable(probe=False)
        ending, shortage = self._attempt(function, *args, timeout_s=timeout_s)
        if shortage:
            log.warning("%s Waiting %g s for it.", shortage, self._room_limit_s)
        while shortage and time.monotonic() < end_s:
            time.sleep(_LOOK_EVERY_S)
            self._replace()  # what the process keeps between candidates is freed with it
            self._ensure_usable(probe=False)
            ending, shortage = self._attempt(function, *args, timeout_s=timeout_s)
        if ending is None:
            raise NoRoomError(shortage)
        return ending

    def _attempt(
        self, function: Callable[..., T], *args: Any, timeout_s: float
    ) -> tuple[Ending[T] | None, str]:
        """The call's ending, if it had one, and what is said when the GPU's memory was full."""
        try:
            ending = self._active.pool.submit(function, *args, timeout_s=timeout_s).result()
        except (NoRoomError, MemoryError) as error:  # the second one is CuPy's
            return None, str(error)
        reason = ending.value.reason if isinstance(ending.value, GpuOutcome) else ""
        return ending, reason if _is_about_memory(reason) else ""

    def _ensure_usable(self, *, probe: bool = True) -> None:
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
            self._replace()

    def _gpu_error(self, *, probe: bool) -> str:
        """Why the active process cannot use the GPU; empty when it can."""
        errors: tuple[type[Exception], ...] = (*launcher.cuda_errors(), MemoryError)
        try:
            ending = self._active.warm_up().result()
            if probe and ending.status is Status.CORRECT:
                ending = self._active.warm_up(again=True).result()
        except errors as error:
            return str(error).strip().splitlines()[0]
        return ending.reason

    def _switch_to_hidden(self) -> None:
        process, self._for_hidden = self._for_hidden, None
        if process is not None:
            self._switch_to(process)

    def _switch_to(self, process: GpuProcess) -> None:
        """As _replace(), by a process that has prepared itself for what is to come; nothing hangs here, so it
        makes its context while the old one's is taken down.
        """
        self._active.pool.begin_to_close()
        process.warm_up()
        self._active.pool.close()
        self._active = process

    def _finals(self, task: FinalTask) -> Ending[FinalReport]:
        process, self._for_finals = self._for_finals, None
        if process is not None:
            self._switch_to(process)
        else:
            self._replace()
        self._ensure_usable(probe=False)
        self._wait_for_contexts()
        try:
            ending = self._with_room(self._jobs.finals, task, timeout_s=task.limit_s)
        except NoRoomError as error:
            return Ending(None, Status.RUNTIME, str(error))
        if ending.value is None or ending.value.value is None:
            self._replace()
        return ending.value or Ending(None, ending.status, ending.reason)

    def _replace(self) -> None:
        if self._is_closed:
            raise CancelledError
        # The old process is closed first, and its end waited for: what hangs would slow the next candidate.
        self._active.pool.close()
        self._active = self._standbys.popleft()
        self._standbys.append(self._begun())
        if self._is_closed:  # meanwhile: close() has not seen the new one
            self._standbys[-1].pool.close()

    def _begun(self, *, hurries: bool = False, after: GpuProcess | None = None) -> GpuProcess:
        return self._starting(self._jobs.precompute_references, *self._reference_args, hurries, after=after)

    def _starting(
        self, function: Callable[..., None], *args: Any, after: GpuProcess | None = None
    ) -> GpuProcess:
        return started(function, *args, warm_up=self._jobs.warm_up, cases=self._cases.path, after=after)

    def _wait_for_contexts(self) -> None:
        """Wait for the contexts of stand-bys that are being made."""
        for standby in self._standbys:
            if standby.warm is not None:
                standby.warm.exception()

    def close(self) -> None:
        """Kill the processes; tasks that have not run are cancelled."""
        self._is_closed = True
        self._turns.close()
        begun = (self._active, *self._standbys, self._for_hidden, self._for_finals)
        processes = [process for process in begun if process is not None]
        for process in processes:
            process.pool.begin_to_close()  # a context takes its time to go: all of them at once
        for process in processes:
            process.pool.close()
        self._cases.close()

    def __enter__(self) -> "GpuWorker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _is_about_memory(reason: str) -> bool:
    return "out of memory" in reason.lower()


def _own_memory(task: GpuTask) -> int:
    """Bytes of the GPU's memory that the candidate asks for beside what every candidate is given."""
    parts = (launch for _, launches in (*task.checks, *task.timed) for launch in launches)
    return max((launch.workspace_bytes for launch in parts), default=0)
