"""Gives the GPU work to processes: a kernel that crashes or hangs costs one candidate and not the search.

Where that was asked for, two processes share the GPU once a kernel is proven: what one of them timed runs
alone, and meanwhile the other loads, captures and compares (gpu/launcher.py). Threads call what they are
given, one call at a time each: what is urgent first, else in order. Not covered: a kernel that brings down
the machine, or writes into another process's memory. What is checked and timed is in rungs.py and finals.py,
what follows when a process is lost in process.py.
"""

import itertools
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeVar

from evoflash.evaluation import Rung, Status
from evoflash.gpu import launcher
from evoflash.gpu.memory import NoRoomError
from evoflash.gpu.process.finals import FinalReport, FinalTask, rounds
from evoflash.gpu.process.outcome import GpuOutcome
from evoflash.gpu.process.process import (
    MEMORY_LIMIT_S,
    STANDBYS,
    GpuProcess,
    Jobs,
    Lane,
    Standbys,
    start_process,
)
from evoflash.gpu.process.rungs import GpuTask
from evoflash.isolation import Ending
from evoflash.operation import Workload
from evoflash.validation.cases import SharedCases

T = TypeVar("T")


@dataclass(frozen=True, slots=True, order=True)
class _Turn:
    """A call that waits. Only its rank and its number are compared."""

    rank: int
    number: int
    function: Callable[[], Any] = field(compare=False)
    answer: "Future[Any]" = field(compare=False)


class Turns:
    """The threads and the queue before them."""

    def __init__(self, name: str, *, at_once: int = 1) -> None:
        self._name, self._threads = name, 0
        self._waiting: queue.PriorityQueue[_Turn] = queue.PriorityQueue()
        self._numbers, self._is_closed = itertools.count(), False
        self.widen(at_once)

    def widen(self, at_once: int) -> None:
        """From now on call so many at the same time, if that is more than before."""
        for _ in range(at_once - self._threads):
            threading.Thread(target=self._serve, name=self._name, daemon=True).start()
            self._threads += 1

    def submit(self, function: Callable[..., T], *args: Any, first: bool = False) -> "Future[T]":
        """Call the function in its turn; `first`: before all that are not. Cancelled once this is closed."""
        answer: Future[T] = Future()
        self._waiting.put(_Turn(int(not first), next(self._numbers), lambda: function(*args), answer))
        if self._is_closed:
            answer.cancel()
        return answer

    def cancel(self) -> None:
        """Drop what has not begun."""
        while True:
            try:
                self._waiting.get_nowait().answer.cancel()
            except queue.Empty:
                return

    def close(self) -> None:
        """Drop what has not begun, and end when the calls under way do; returns at once."""
        self._is_closed = True
        self.cancel()
        self._wake()

    def _serve(self) -> None:
        while not self._is_closed:
            turn = self._waiting.get()
            if turn.answer.set_running_or_notify_cancel():
                _call(turn)
        self.cancel()
        self._wake()  # one thread after the other ends

    def _wake(self) -> None:
        self._waiting.put(_Turn(0, next(self._numbers), lambda: None, Future()))


def _call(turn: _Turn) -> None:
    try:
        answer = turn.function()
    except BaseException as error:  # whoever waits for it is told, whatever it is
        turn.answer.set_exception(error)
    else:
        turn.answer.set_result(answer)


_ROOM_LIMIT_S = 30.0  # how long another program may fill the GPU's memory
_ROOM_FOR_TWO = 1.5  # times what is in use is still free: a second process takes as much as the first


TaskNow = Callable[[GpuTask], GpuTask]


def _as_is(task: GpuTask) -> GpuTask:
    return task


class GpuWorker:
    """The GPU process, its stand-bys, and the queue before them. Tasks run in order, but whole ladders before
    short looks; one at a time, or two.
    """

    at_once = 1  # GPUs

    def __init__(
        self,
        *,
        checks: tuple[Workload, ...] = (),
        timed: tuple[Workload, ...] = (),
        seed: int = 0,
        jobs: Jobs | None = None,
        room_limit_s: float = _ROOM_LIMIT_S,
        shares: bool = False,
    ) -> None:
        """The workloads and the seed of the tasks to come: their references are computed beforehand.

        `shares`: two processes may share the GPU.
        """
        if jobs is None:
            launcher.present_gpu()  # without a GPU the error comes from here and not from a process
        self._jobs, self._reference_args = jobs or Jobs(), (checks, timed, seed)
        self._turns, self._cases = Turns("evoflash-gpu"), SharedCases(timed, seed)
        first = self._begin_process(hurries=True)
        waiting = deque(self._begin_process(after=first) for _ in range(STANDBYS))
        self._standbys = Standbys(lambda: self._begin_process(), waiting)
        self._room_limit_s = room_limit_s
        self._lanes = [self._lane(first)]
        self._free: queue.SimpleQueue[Lane] = queue.SimpleQueue()
        self._free.put(self._lanes[0])
        self._may_share, self._opening = shares, threading.Lock()
        self._for_hidden: GpuProcess | None = None
        self._for_finals: GpuProcess | None = None

    @property
    def cases(self) -> str:
        """The folder in which its processes share what candidates are compared with; others may add to it."""
        return self._cases.path

    def submit(self, task: GpuTask, *, now: TaskNow = _as_is) -> "Future[GpuOutcome]":
        """The task's outcome after all rungs, whatever the kernel does; raises in result() only for a broken
        machine. `now` is asked for the task as it stands when its turn has come.
        """
        return self._turns.submit(lambda: self._evaluate(now(task)), first=True)

    def screen(self, task: GpuTask, *, now: TaskNow = _as_is) -> "Future[GpuOutcome]":
        """What a short look says of the task (screening.py): CORRECT means worth a submit()."""
        return self._turns.submit(lambda: self._screen(now(task)))

    def cancel(self) -> None:
        """Drop the tasks that have not begun."""
        self._turns.cancel()

    def prepare_finals(self, hidden: tuple[Workload, ...], seed: int) -> None:
        """Begin two processes beside the search, for begin_finals() and finalists(): one computes references
        of the hidden workloads, one loads the libraries. Neither touches the GPU before its turn.
        """
        if self._standbys.is_closed:
            return
        references = self._jobs.precompute_references
        self._for_hidden = self._starting(references, hidden, (), seed)
        _, timed, timed_seed = self._reference_args
        self._for_finals = self._starting(self._jobs.prepare_finals, timed, timed_seed)

    def begin_finals(self) -> "Future[None]":
        """From here on tasks meet the process that knows the hidden workloads, where there is one, and which
        has the GPU to itself.
        """
        return self._turns.submit(self._switch_to_hidden, first=True)

    def finalists(self, task: FinalTask) -> "Future[Ending[FinalReport]]":
        """Long timings in turns in a fresh process; with no tasks, the baselines alone."""
        return self._turns.submit(rounds, task, self._finals)

    def _screen(self, task: GpuTask) -> GpuOutcome:
        if task.anchor is None or task.rival_us is None:  # nothing to be slower than: no process is asked
            return GpuOutcome(task.genome_id, Status.CORRECT, Rung.SMOKE)
        with self._next_lane() as lane:
            return lane.outcome(task, Rung.SMOKE, self._jobs.screen, task)

    def _evaluate(self, task: GpuTask) -> GpuOutcome:
        self._standbys.warm_up()  # now, because a context in the making would disturb the clock
        with self._next_lane() as lane:
            checked = lane.outcome(task, Rung.SMOKE, self._jobs.check, task)
            if checked.status is not Status.CORRECT or not task.timed:
                return checked
            self._standbys.wait_for_contexts()
            timing, verdicts = self._jobs.time_correct, checked.verdicts
            timed = lane.outcome(task, Rung.TIMING, timing, task, checked, verdicts=verdicts)
            if timed.status is Status.CORRECT:
                self._open_another(lane)
            return timed

    @contextmanager
    def _next_lane(self) -> Iterator[Lane]:
        lane = self._free.get()
        try:
            yield lane
        finally:
            self._free.put(lane)

    def _open_another(self, lane: Lane) -> None:
        """Once, where that was asked for: a second process, if the GPU has room for what the first one has
        there after its first kernel.
        """
        with self._opening:
            may_share, self._may_share = self._may_share, False
        if not may_share:
            return
        asked = lane.process.pool.submit(self._jobs.memory, timeout_s=MEMORY_LIMIT_S)
        free, total = asked.result().value or (0, 1)
        if free < _ROOM_FOR_TWO * (total - free):
            return
        self._lanes.append(self._lane(self._standbys.take()))
        self._free.put(self._lanes[-1])
        self._turns.widen(len(self._lanes))

    def _switch_to_hidden(self) -> None:
        self._one_alone()
        process, self._for_hidden = self._for_hidden, None
        if process is not None:
            with self._next_lane() as lane:
                lane.switch_to(process)

    def _one_alone(self) -> None:
        """End all processes that share the GPU but one, when their calls have ended."""
        with self._opening:
            self._may_share = False
        while len(self._lanes) > 1:
            lane = self._free.get()
            lane.process.pool.close()
            self._lanes.remove(lane)

    def _finals(self, task: FinalTask) -> Ending[FinalReport]:
        self._one_alone()
        process, self._for_finals = self._for_finals, None
        with self._next_lane() as lane:
            if process is not None:
                lane.switch_to(process)
            else:
                lane.replace()
            lane.ensure_usable(probe=False)
            self._standbys.wait_for_contexts()
            try:
                ending = lane.with_room(self._jobs.finals, task, timeout_s=task.limit_s)
            except NoRoomError as error:
                return Ending(None, Status.RUNTIME, str(error))
            if ending.value is None or ending.value.value is None:
                lane.replace()
            return ending.value or Ending(None, ending.status, ending.reason)

    def _lane(self, process: GpuProcess) -> Lane:
        return Lane(process, self._standbys, room_limit_s=self._room_limit_s)

    def _begin_process(self, *, hurries: bool = False, after: GpuProcess | None = None) -> GpuProcess:
        return self._starting(self._jobs.precompute_references, *self._reference_args, hurries, after=after)

    def _starting(
        self, function: Callable[..., None], *args: Any, after: GpuProcess | None = None
    ) -> GpuProcess:
        return start_process(function, *args, warm_up=self._jobs.warm_up, cases=self._cases.path, after=after)

    def close(self) -> None:
        """Kill the processes; tasks that have not run are cancelled."""
        waiting = self._standbys.close()
        self._turns.close()
        begun = (*(lane.process for lane in self._lanes), *waiting, self._for_hidden, self._for_finals)
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
