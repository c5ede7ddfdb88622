"""What an evaluator may ask of processes and of a GPU, here or on a cluster. Starts nothing by itself.

The loop and the evaluators know these promises alone. This machine keeps them by isolation.py and
gpu/process/worker.py, a Dask cluster by cluster/.
"""

import os
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from evoflash.isolation import Ending, IsolatedPool
from evoflash.operation import Workload

if TYPE_CHECKING:
    from evoflash.gpu.process.finals import FinalReport, FinalTask
    from evoflash.gpu.process.outcome import GpuOutcome
    from evoflash.gpu.process.rungs import GpuTask

T = TypeVar("T")

_NICENESS = 5


class Processes(Protocol):
    """Processes that may die without harm to the search; isolation.IsolatedPool has the promise in full."""

    def submit(self, function: Callable[..., T], *args: object, timeout_s: float) -> "Future[Ending[T]]":
        """Call the function in one of them."""

    def close(self) -> None:
        """End what runs; open calls are cancelled."""


class Cores(Protocol):
    """Where genomes are compiled and emulated."""

    @property
    def count(self) -> int:
        """Genomes that can be prepared at the same time; a cluster's workers may still be joining."""

    @property
    def ahead(self) -> int:
        """Proposals in flight that keep all of them busy."""

    def processes(self) -> Processes:
        """New processes, as many as can work at the same time."""


class GpuQueue(Protocol):
    """GPUs and the tasks that wait for them; gpu_process.worker.GpuWorker has the promises in full."""

    @property
    def at_once(self) -> int:
        """Tasks that run at the same time: GPUs."""

    def screen(self, task: "GpuTask", *, now: "Callable[[GpuTask], GpuTask]") -> "Future[GpuOutcome]":
        """What a short look says of the task."""

    def submit(self, task: "GpuTask", *, now: "Callable[[GpuTask], GpuTask]" = ...) -> "Future[GpuOutcome]":
        """The task's outcome after all rungs."""

    def cancel(self) -> None:
        """Drop the tasks that have not begun."""

    def prepare_finals(self, hidden: tuple[Workload, ...], seed: int) -> None:
        """Make ready, beside the search, for what comes after it."""

    def begin_finals(self) -> "Future[None]":
        """From here on tasks are about hidden workloads, and one GPU has them all."""

    def finalists(self, task: "FinalTask") -> "Future[Ending[FinalReport]]":
        """Long timings in turns in a fresh process."""

    def close(self) -> None:
        """End the processes; tasks that have not run are cancelled."""


class GpuQueues(Protocol):
    """Makes the queue of a search."""

    def __call__(
        self, *, checks: tuple[Workload, ...], timed: tuple[Workload, ...], seed: int
    ) -> GpuQueue: ...


@dataclass(frozen=True, slots=True)
class ThisMachine:
    """The cores of this machine."""

    count: int

    @property
    def ahead(self) -> int:
        """Enough that no core waits for a proposal, and compilation overlaps what comes after."""
        return 2 * self.count

    def processes(self) -> IsolatedPool:
        """A process for each core; the search and its GPU processes, which wait for them, go first."""
        return IsolatedPool(self.count, initializer=_give_way)


def this_machine(workers: int | None = None) -> ThisMachine:
    """With so many processes; the default is one a core."""
    return ThisMachine(workers or len(os.sched_getaffinity(0)))


def _give_way() -> None:
    os.nice(_NICENESS)
