"""A process on its way to the GPU, and what such processes are asked to do. Who is asked what: worker.py."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evoflash.cuda import launcher
from evoflash.cuda.sharing import share_gpu_by
from evoflash.gpu_process.finals import FinalReport, FinalTask
from evoflash.gpu_process.finals_retry import run_noting
from evoflash.gpu_process.outcome import GpuOutcome
from evoflash.gpu_process.preparation import prepare, prepare_finals
from evoflash.gpu_process.rungs import GpuTask, check, time_correct
from evoflash.gpu_process.screening import screen
from evoflash.isolation import Ending, IsolatedPool
from evoflash.validation.cases import share_in

_WARM_UP_LIMIT_S = 120
REFERENCES_LIMIT_S = 600
MEMORY_LIMIT_S = 10
_TURNS = "turns"  # the file by which processes of one search share the GPU


@dataclass(frozen=True, slots=True)
class Jobs:
    """What the GPU processes are asked to do. Tests give others, which break as they want."""

    warm_up: Callable[[], None] = launcher.warm_up
    precompute_references: Callable[..., None] = prepare
    prepare_finals: Callable[..., None] = prepare_finals
    screen: Callable[[GpuTask], GpuOutcome] = screen
    check: Callable[[GpuTask], GpuOutcome] = check
    time_correct: Callable[[GpuTask, GpuOutcome], GpuOutcome] = time_correct
    finals: Callable[[FinalTask], Ending[FinalReport]] = run_noting
    memory: Callable[[], tuple[int, int]] = launcher.memory_bytes


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

    def warm_up_if_ready(self) -> None:
        """Begin to make the context, unless it would have to wait for the references."""
        if self.references.done():
            self.warm_up()


def started(
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
