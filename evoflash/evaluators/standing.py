"""The best proven kernels of a search so far: what the next candidate is compared with. Times nothing.

A candidate is worth every check while it could become one of the few best. All candidates are timed beside
one kernel, the anchor: the first one that was proven, until another is far faster.
"""

import bisect
import contextlib
import threading
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field, replace

from evoflash.evaluation import SCORED, Timing
from evoflash.gpu_process.rungs import Anchor, GpuTask
from evoflash.operation import Workload

ELITES = 8
_FAR_FASTER = 0.7
_FEW = 2.5  # while there are fewer: what takes so many times the best one's time will not be one that matters


@dataclass(frozen=True, slots=True, order=True)
class _Proven:
    score_us: float
    anchor: Anchor | None = field(compare=False)


class Standing:
    """Threads may ask and add at any time."""

    def __init__(self) -> None:
        self._lock, self._best = threading.Lock(), list[_Proven]()
        self._anchor: _Proven | None = None
        self.begun: Future[None] = Future()  # done once something can be compared with

    def add(self, score_us: float, anchor: Anchor | None) -> None:
        """One more proven kernel; None where its machine code is no longer at hand."""
        with self._lock:
            new = _Proven(score_us, anchor)
            bisect.insort(self._best, new)
            del self._best[ELITES:]
            if anchor and (not self._anchor or score_us < _FAR_FASTER * self._anchor.score_us):
                self._anchor = new
        if anchor:
            with contextlib.suppress(InvalidStateError):  # it is done already
                self.begun.set_result(None)

    def now(self, task: GpuTask) -> GpuTask:
        """The task with what it has to keep up with at this moment; as it is while nothing is proven."""
        with self._lock:
            anchor = self._anchor.anchor if self._anchor else None
            return replace(task, anchor=anchor, rival_us=_rival_us(self._best))


def _rival_us(best: Sequence[_Proven]) -> float | None:
    if not best:
        return None
    return best[-1].score_us if len(best) >= ELITES else _FEW * best[0].score_us


def anchor_of(task: GpuTask, timings: Sequence[Timing]) -> Anchor:
    """A proven kernel with its times under the protocol that ranks it."""
    return Anchor(task, tuple(_ranked_us(workload, timings) for workload, _ in task.timed))


def _ranked_us(workload: Workload, timings: Sequence[Timing]) -> float:
    timed = {timing.protocol: timing.median_us for timing in timings if timing.workload == str(workload)}
    return next(timed[protocol] for protocol in SCORED if protocol in timed)
