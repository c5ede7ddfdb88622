"""Gives the GPU work to processes: a kernel that crashes or hangs costs one candidate and not the search.

Where that was asked for, two processes share the GPU once a kernel is proven: what one of them timed runs
alone, and meanwhile the other loads, captures and compares (gpu/launcher.py). Stand-bys are kept ready; when
a process, the GPU or the GPU's memory goes, it is found out here who is to blame. Not covered: a kernel that
brings down the machine, or writes into another process's memory. What a process does first is in warm_up.py,
what is checked and timed in rungs.py and finals.py.
"""

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from evoflash.errors import DeviceError
from evoflash.evaluation import Rung, Status, Verdict
from evoflash.gpu import launcher
from evoflash.gpu.launcher import share_gpu_by
from evoflash.gpu.memory import NoRoomError
from evoflash.gpu.process.finals import FinalReport, FinalTask, rounds
from evoflash.gpu.process.outcome import GpuOutcome
from evoflash.gpu.process.rungs import GpuTask
from evoflash.gpu.process.warm_up import REFERENCES_LIMIT_S, Jobs
from evoflash.isolation import Ending, IsolatedPool, Turns, raise_if_of_machine
from evoflash.operation import Workload
from evoflash.validation.cases import SharedCases, share_in

_WARM_UP_LIMIT_S = 120
_MEMORY_LIMIT_S, _CONTEXTS_LIMIT_S = 10, 20
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
    after: GpuProcess | None = None,
) -> GpuProcess:
    """A process that calls the function before it has a context, and begins when another one has its
    references: before that, it would take cores from it. `cases` is the folder in which it shares test inputs
    and their right answers with others.
    """
    pool = IsolatedPool(1, initializer=_share, initargs=(cases,))
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


def _share(cases: str) -> None:
    share_in(cases)
    share_gpu_by(str(Path(cases) / _TURNS))


log = logging.getLogger(__name__)
T = TypeVar("T")

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
    """One GPU process after another; one call at a time."""

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


_ROOM_LIMIT_S = 30.0  # how long another program may fill the GPU's memory
_ROOM_FOR_TWO = 1.5  # times what is in use is still free: a second process takes as much as the first


TaskNow = Callable[[GpuTask], GpuTask]


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
        self._start = partial(start_process, warm_up=self._jobs.warm_up, cases=self._cases.path)
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

    def submit(self, task: GpuTask, *, now: TaskNow = lambda task: task) -> "Future[GpuOutcome]":
        """The task's outcome after all rungs, whatever the kernel does; raises in result() only for a broken
        machine. `now` is asked for the task as it stands when its turn has come.
        """
        return self._turns.submit(lambda: self._evaluate(now(task)), first=True)

    def screen(self, task: GpuTask, *, now: TaskNow = lambda task: task) -> "Future[GpuOutcome]":
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
        self._for_hidden = self._start(references, hidden, (), seed)
        _, timed, timed_seed = self._reference_args
        self._for_finals = self._start(self._jobs.prepare_finals, timed, timed_seed)

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
        with self._next_lane() as lane:
            checked = lane.outcome(task, Rung.SMOKE, self._jobs.check, task)
            if checked.status is not Status.CORRECT or not task.timed:
                return checked
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
        asked = lane.process.pool.submit(self._jobs.memory, timeout_s=_MEMORY_LIMIT_S)
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
        self._standbys.is_before_finals = False
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
        return self._start(self._jobs.precompute_references, *self._reference_args, hurries, after=after)

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

    def __exit__(self, *_: object) -> None:
        self.close()
