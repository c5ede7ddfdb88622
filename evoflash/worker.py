"""The GPU process and its stand-by: a kernel that crashes or hangs costs one candidate and not the search.

Covered: illegal addresses and every other CUDA error (the context is never used again), hangs (the process
is killed), host crashes. A second process stands by, its context made, so that the candidate after a bad one
need not wait. Not covered: a kernel that brings down the driver or the machine, or writes into another
process's memory. What is checked and timed is in ladder.py and finals.py.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any

from evoflash import launcher
from evoflash.evaluation import Rung, Status, Verdict
from evoflash.finals import FinalReport, FinalTask, run_finals
from evoflash.isolation import Ending, IsolatedPool
from evoflash.kept import learn
from evoflash.ladder import GpuOutcome, GpuTask, check, time_correct
from evoflash.problem import Workload

_WARM_UP_LIMIT_S = 120
_LEARN_LIMIT_S = 600


class GpuWorker:
    """The GPU process, its stand-by, and the queue before them. Tasks run one at a time, in order."""

    def __init__(
        self, *, checks: tuple[Workload, ...] = (), timed: tuple[Workload, ...] = (), seed: int = 0
    ) -> None:
        """The workloads and the seed of the tasks to come: their references are computed beforehand."""
        launcher.present_gpu()  # a machine without a GPU is said here, not in a process
        self._lesson = (checks, timed, seed)
        self._queue = ThreadPoolExecutor(max_workers=1, thread_name_prefix="evoflash-gpu")
        self._active, self._ready = self._warm_pool()
        self._standby, self._standby_ready = self._warm_pool()

    def submit(self, task: GpuTask) -> "Future[GpuOutcome]":
        """The task's outcome, whatever the kernel does. Raises in result() only for a broken machine."""
        return self._queue.submit(self._evaluate, task)

    def finalists(self, task: FinalTask) -> "Future[Ending[FinalReport]]":
        """Long timings in turns in a fresh process; with no tasks, the baselines alone."""
        return self._queue.submit(self._finals, task)

    def _evaluate(self, task: GpuTask) -> GpuOutcome:
        checked = self._call(task, Rung.SMOKE, check, task)
        if checked.status is not Status.CORRECT or not task.timed or checked.timings:  # timed: stopped early
            return checked
        self._standby_ready.result()  # a process that is making its context would disturb the clock
        return self._call(task, Rung.TIMING, time_correct, task, checked, verdicts=checked.verdicts)

    def _call(
        self,
        task: GpuTask,
        rung: Rung,
        function: Callable[..., GpuOutcome],
        *args: Any,
        verdicts: tuple[Verdict, ...] = (),
    ) -> GpuOutcome:
        self._ready.result()
        ending = self._active.submit(function, *args, timeout_s=task.limit_s).result()
        outcome = ending.value or GpuOutcome(
            task.genome_id, ending.status, rung, ending.reason, verdicts, process_lost=True
        )
        if outcome.process_lost:
            self._replace()
        return outcome

    def _finals(self, task: FinalTask) -> Ending[FinalReport]:
        self._replace()
        self._ready.result()
        self._standby_ready.result()
        ending = self._active.submit(run_finals, task, timeout_s=task.limit_s).result()
        if ending.value is None or ending.value.value is None:
            self._replace()
        return ending.value or Ending(None, ending.status, ending.reason)

    def _replace(self) -> None:
        # Closed first, and waited for: what hangs on the GPU would slow the next candidate.
        self._active.close()
        self._active, self._ready = self._standby, self._standby_ready
        self._standby, self._standby_ready = self._warm_pool()

    def _warm_pool(self) -> "tuple[IsolatedPool, Future[Ending[None]]]":
        pool = IsolatedPool(1)
        ready = pool.submit(launcher.warm_up, timeout_s=_WARM_UP_LIMIT_S)
        pool.submit(learn, *self._lesson, timeout_s=_LEARN_LIMIT_S)
        return pool, ready

    def close(self) -> None:
        """Kill both processes; tasks that have not run are cancelled."""
        self._queue.shutdown(wait=False, cancel_futures=True)
        self._active.close()
        self._standby.close()

    def __enter__(self) -> "GpuWorker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
