"""Gives the work of GPUs to their processes, one task at a time or two on each. Knows nothing of what fails.

Where that was asked for, two processes share a GPU once a kernel is proven there: what one of them timed runs
alone, and meanwhile the other loads, captures and compares (gpu/launcher.py). A GPU that cannot be used any
more is asked no more while there is another one; what becomes of a process is lane.py's.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from evoflash.errors import DeviceError
from evoflash.evaluation import Rung, Status
from evoflash.gpu import launcher
from evoflash.gpu.memory import NoRoomError
from evoflash.gpu.process.finals import FinalReport, FinalTask, rounds
from evoflash.gpu.process.lane import STANDBYS, GpuProcess, Lane, Standbys, start_process
from evoflash.gpu.process.outcome import GpuOutcome
from evoflash.gpu.process.rungs import GpuTask
from evoflash.gpu.process.warm_up import Jobs
from evoflash.isolation import Ending, Turns
from evoflash.validation.cases import SharedCases
from evoflash.workload import Workload

log = logging.getLogger(__name__)
T = TypeVar("T")
_MEMORY_LIMIT_S = 10
_ROOM_LIMIT_S = 30.0  # how long another program may fill the GPU's memory
_ROOM_FOR_TWO = 1.5  # times what is in use is still free: a second process takes as much as the first


TaskNow = Callable[[GpuTask], GpuTask]


@dataclass(slots=True, eq=False)
class Gpu:
    """One of the GPUs of a search, and its processes."""

    name: str  # as CUDA_VISIBLE_DEVICES calls it; empty: the one that is here
    standbys: Standbys
    lanes: list[Lane]
    may_share: bool  # a second process may still be opened
    is_out: bool = False  # asked no more: it is lost, or another one has the finals
    for_hidden: GpuProcess | None = None
    for_finals: GpuProcess | None = None


class GpuWorker:
    """The processes of the GPUs, their stand-bys, and the queue before them. Tasks run in order, but whole
    ladders before short looks; on each GPU one at a time, or two.
    """

    def __init__(
        self,
        *,
        checks: tuple[Workload, ...] = (),
        timed: tuple[Workload, ...] = (),
        seed: int = 0,
        jobs: Jobs | None = None,
        room_limit_s: float = _ROOM_LIMIT_S,
        shares: bool = False,
        gpus: Sequence[str] = ("",),
    ) -> None:
        """The workloads and the seed of the tasks to come: their references are computed beforehand.

        `shares`: two processes may share a GPU. `gpus`: what CUDA_VISIBLE_DEVICES calls each; the one here.
        """
        if jobs is None:
            launcher.present_gpu()  # without a GPU the error comes from here and not from a process
        self._jobs, self._reference_args = jobs or Jobs(), (checks, timed, seed)
        self._cases, self._room_limit_s = SharedCases(timed, seed), room_limit_s
        self._start = partial(start_process, warm_up=self._jobs.warm_up, cases=self._cases.path)
        self._gpus = [self._gpu(name, shares=shares) for name in gpus]
        self._free = [(gpu, lane) for gpu in self._gpus for lane in gpu.lanes]
        self._changed = threading.Condition()  # of that, and of the GPUs
        self._turns = Turns("evoflash-gpu", at_once=len(gpus))

    @property
    def cases(self) -> str:
        """The folder in which its processes share what candidates are compared with; others may add to it."""
        return self._cases.path

    @property
    def at_once(self) -> int:
        return sum(not gpu.is_out for gpu in self._gpus)

    def submit(self, task: GpuTask, *, now: TaskNow = lambda task: task) -> "Future[GpuOutcome]":
        """The task's outcome after all rungs, whatever the kernel does; raises in result() only for a broken
        machine. `now` is asked for the task as it stands when its turn has come.
        """
        return self._turns.submit(lambda: self._evaluate(now(task)), first=True)

    def screen(self, task: GpuTask, *, now: TaskNow = lambda task: task) -> "Future[GpuOutcome]":
        """What a short look says of the task (rungs.py): CORRECT means worth a submit()."""
        return self._turns.submit(lambda: self._screen(now(task)))

    def cancel(self) -> None:
        self._turns.cancel()

    def prepare_finals(self, hidden: tuple[Workload, ...], seed: int) -> None:
        """Begin two processes beside the search, for begin_finals() and finalists(): one computes references
        of the hidden workloads, one loads the libraries and compiles their kernels. Neither launches anything
        before its turn.
        """
        gpu = self._gpus[0]
        if gpu.standbys.is_closed:
            return
        references = self._jobs.precompute_references
        gpu.for_hidden = self._start(references, hidden, (), seed, gpu=gpu.name)
        _, timed, timed_seed = self._reference_args
        gpu.for_finals = self._start(self._jobs.prepare_finals, timed, timed_seed, gpu=gpu.name)

    def begin_finals(self) -> "Future[None]":
        """From here on tasks meet the process that knows the hidden workloads, where there is one, and which
        has one GPU to itself.
        """
        return self._turns.submit(self._switch_to_hidden, first=True)

    def finalists(self, task: FinalTask) -> "Future[Ending[FinalReport]]":
        """Long timings in turns in a fresh process; with no tasks, the baselines alone."""
        return self._turns.submit(rounds, task, self._finals)

    def _screen(self, task: GpuTask) -> GpuOutcome:
        if task.anchor is None or task.rival_us is None:  # nothing to be slower than: no process is asked
            return GpuOutcome(task.genome_id, Status.CORRECT, Rung.SMOKE)
        return self._in_a_lane(lambda _, lane: lane.outcome(task, Rung.SMOKE, self._jobs.screen, task))

    def _evaluate(self, task: GpuTask) -> GpuOutcome:
        def prove(gpu: Gpu, lane: Lane) -> GpuOutcome:
            checked = lane.outcome(task, Rung.SMOKE, self._jobs.check, task)
            if checked.status is not Status.CORRECT or not task.timed:
                return checked
            timing, verdicts = self._jobs.time_correct, checked.verdicts
            timed = lane.outcome(task, Rung.TIMING, timing, task, checked, verdicts=verdicts)
            if timed.status is Status.CORRECT:
                self._open_another(gpu, lane)
            return timed

        return self._in_a_lane(prove)

    def _in_a_lane(self, call: Callable[[Gpu, Lane], T]) -> T:
        """What the call comes to in the next lane that is free; where its GPU is lost, on another one."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._free)
                gpu, lane = self._free.pop(0)
            try:
                return call(gpu, lane)
            except DeviceError as error:  # this GPU's, which says nothing of the candidate
                self._go_on_without(gpu, error)
            finally:
                self._give_back(gpu, lane)

    def _give_back(self, gpu: Gpu, lane: Lane) -> None:
        with self._changed:
            if not gpu.is_out:
                self._free.append((gpu, lane))
            self._changed.notify_all()

    def _go_on_without(self, gpu: Gpu, error: DeviceError) -> None:
        """The error where it is the last one."""
        with self._changed:
            if all(other is gpu or other.is_out for other in self._gpus):
                raise error
            if not gpu.is_out:
                log.warning("going on without GPU %s: %s", gpu.name, error)
            gpu.is_out = True
            self._free = [free for free in self._free if free[0] is not gpu]

    def _open_another(self, gpu: Gpu, lane: Lane) -> None:
        """Once, where that was asked for: a second process, if the GPU has room for what the first one has
        there after its first kernel.
        """
        with self._changed:
            may_share, gpu.may_share = gpu.may_share, False
        if not may_share:
            return
        asked = lane.process.pool.submit(self._jobs.memory, timeout_s=_MEMORY_LIMIT_S)
        free, total = asked.result().value or (0, 1)
        if free < _ROOM_FOR_TWO * (total - free):
            return
        gpu.lanes.append(self._lane(gpu.standbys.take(), gpu.standbys))
        self._turns.widen(sum(len(each.lanes) for each in self._gpus))
        self._give_back(gpu, gpu.lanes[-1])

    def _switch_to_hidden(self) -> None:
        with self._alone() as (gpu, lane):
            process, gpu.for_hidden = gpu.for_hidden, None
            if process is not None:
                lane.switch_to(process)

    @contextmanager
    def _alone(self) -> Iterator[tuple[Gpu, Lane]]:
        """The first GPU, whose other processes end when the calls of all have ended; the other GPUs are asked
        no more.
        """
        for gpu in self._gpus:
            gpu.standbys.is_before_finals = gpu.may_share = False
        with self._changed:
            self._changed.wait_for(self._all_are_free)
            (gpu, lane), *_ = sorted(self._free, key=lambda free: self._gpus.index(free[0]))
            for each in self._gpus:
                each.is_out = each is not gpu
            self._free = []
        others, gpu.lanes = [each for each in gpu.lanes if each is not lane], [lane]
        for other in others:
            other.process.pool.close()
        try:
            yield gpu, lane
        finally:
            self._give_back(gpu, lane)

    def _all_are_free(self) -> bool:
        return len(self._free) == sum(len(gpu.lanes) for gpu in self._gpus if not gpu.is_out)

    def _finals(self, task: FinalTask) -> Ending[FinalReport]:
        with self._alone() as (gpu, lane):
            process, gpu.for_finals = gpu.for_finals, None
            if process is not None:
                lane.switch_to(process)
            else:
                lane.replace()
            lane.ensure_usable(probe=False)
            gpu.standbys.wait_for_contexts()
            try:
                ending = lane.with_room(self._jobs.finals, task, timeout_s=task.limit_s)
            except NoRoomError as error:
                return Ending(None, Status.RUNTIME, str(error))
            if ending.value is None or ending.value.value is None:
                lane.replace()
            return ending.value or Ending(None, ending.status, ending.reason)

    def _gpu(self, name: str, *, shares: bool) -> Gpu:
        begin = partial(self._start, self._jobs.precompute_references, *self._reference_args, gpu=name)
        first = begin(True)  # in a hurry
        standbys = Standbys(begin, deque(begin(after=first) for _ in range(STANDBYS)))
        return Gpu(name, standbys, [self._lane(first, standbys)], may_share=shares)

    def _lane(self, process: GpuProcess, standbys: Standbys) -> Lane:
        return Lane(process, standbys, room_limit_s=self._room_limit_s)

    def close(self) -> None:
        """Kill the processes; tasks that have not run are cancelled."""
        waiting = [process for gpu in self._gpus for process in gpu.standbys.close()]
        self._turns.close()
        begun = [lane.process for gpu in self._gpus for lane in gpu.lanes]
        begun += filter(None, (each for gpu in self._gpus for each in (gpu.for_hidden, gpu.for_finals)))
        for process in (*begun, *waiting):
            process.pool.begin_to_close()  # a context takes its time to go: all of them at once
        for process in (*begun, *waiting):
            process.pool.close()
        self._cases.close()

    def __enter__(self) -> "GpuWorker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
