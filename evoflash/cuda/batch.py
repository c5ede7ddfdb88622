"""Many launches of a candidate, enqueued together on slabs of memory, and waited for once.

Judges no output: comparisons.py's tables say what they found. What a kernel does to memory or to the machine
leaves here as it does from a single launch, see arena.py.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.cuda.arena import MemoryFaultError
from evoflash.cuda.comparisons import Measured, Pair, Reached, Table
from evoflash.cuda.guarded_buffer import GuardedBuffer
from evoflash.cuda.launcher import KernelHungError, LoadedKernel, cupy, new_stream, wait
from evoflash.cuda.sharing import beside_others
from evoflash.cuda.slab import Slab
from evoflash.cuda.workspace import workspace

_NOT_READY = 600  # cudaErrorNotReady
_LIMIT_S = 20.0  # of the comparisons

Scratch = tuple[int, int]  # a workspace's size, and how much of it is zeroed; bytes


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """What is compared when all launches have run."""

    measured: tuple[Measured, ...] = ()
    alike: tuple[Pair, ...] = ()
    reached: tuple[Reached, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """What the comparisons found, in their order; the tables' answers as comparisons.py describes them."""

    measured: NDArray[np.float64]
    alike: NDArray[np.uint32]
    reached: NDArray[np.uint32]


class Batch:
    """Slabs, what is compared on them, and the stream on which all of it happens."""

    def __init__(self, slabs: Sequence[Slab], compared: Compared) -> None:
        """NoRoomError when the device's memory is used up."""
        self.slabs, self.stream = tuple(slabs), new_stream()
        self._runs = [(at, run) for at, slab in enumerate(slabs) for run in range(len(slab.runs))]
        unchanged = [pairs for slab in slabs for pairs in slab.unchanged()]
        self._owners = np.repeat(np.arange(len(unchanged)), [len(pairs) for pairs in unchanged])
        self._unchanged = Table([pair for pairs in unchanged for pair in pairs])
        self._tables = Table(compared.measured), Table(compared.alike), Table(compared.reached)

    def run(self, kernels: Sequence[LoadedKernel], *, limit_s: float) -> Answers:
        """Every run of every slab with the slab's kernel, then the comparisons.

        Raises MemoryFaultError, KernelHungError when one launch takes longer than `limit_s`, CuPy's errors.
        """
        scratch = {each.scratch: workspace(*each.scratch) for each in kernels if each.workspace_bytes}
        zeros = {key: _zeros(buffer, key[1]) for key, buffer in scratch.items() if key[1]}
        with beside_others():
            for event in self._enqueue_all(kernels, scratch, zeros):
                _wait_for(event, limit_s=limit_s)
            wait(self.stream, limit_s=_LIMIT_S)
            self._check_memory(scratch.values(), zeros.values())
            return Answers(*(table.read() for table in self._tables))

    def _enqueue_all(
        self,
        kernels: Sequence[LoadedKernel],
        scratch: Mapping[Scratch, GuardedBuffer],
        zeros: Mapping[Scratch, Table],
    ) -> list[Any]:
        """All launches and comparisons; an event for each launch that comes with its end."""
        with self.stream:
            for slab in self.slabs:
                slab.restore(self.stream)
            for table in (self._unchanged, *self._tables, *zeros.values()):
                table.reset(self.stream)
            ended = [self._enqueue(at, run, kernels[at], scratch, zeros) for at, run in self._runs]
            for table in (self._unchanged, *self._tables):
                table.ask()
        return ended

    def _enqueue(
        self,
        at: int,
        run: int,
        kernel: LoadedKernel,
        scratch: Mapping[Scratch, GuardedBuffer],
        zeros: Mapping[Scratch, Table],
    ) -> Any:
        """One launch on a slab; an event that comes with its end."""
        buffer = scratch.get(kernel.scratch)
        if buffer is not None:
            buffer.poison(self.stream)
            if kernel.zeroed_bytes:
                buffer.device_bytes.data.memset_async(0, kernel.zeroed_bytes, self.stream)
        pointer = buffer.pointer if buffer is not None else 0
        kernel.enqueue_packed(self.slabs[at].arguments(run, kernel, scratch=pointer))
        if kernel.scratch in zeros:
            zeros[kernel.scratch].ask()
        event = cupy().cuda.Event(disable_timing=True)
        event.record(self.stream)
        return event

    def _check_memory(self, scratch: Iterable[GuardedBuffer], zeros: Iterable[Table]) -> None:
        changed = self._unchanged.read()[:, 0]
        if changed.any():
            slab, run = self._runs[int(self._owners[int(changed.argmax())])]
            raise self.slabs[slab].fault(run)
        if fault := next(filter(None, (buffer.fault() for buffer in scratch)), ""):
            raise MemoryFaultError(f"wrote outside its workspace: {fault}")
        if any(table.read().any() for table in zeros):
            raise MemoryFaultError("left its workspace other than zero where each call expects zeros")


@lru_cache(maxsize=64)
def _zeros(buffer: GuardedBuffer, size_bytes: int) -> Table:
    """Whether the begin of a workspace is zero."""
    return Table([Pair(buffer.pointer, 0, size_bytes)])


def _wait_for(event: Any, *, limit_s: float) -> None:
    """As launcher.wait(), for an event; an error is left to that."""
    query, deadline = cupy().cuda.runtime.eventQuery, time.monotonic() + limit_s
    while query(event.ptr) == _NOT_READY:
        if time.monotonic() > deadline:
            raise KernelHungError(f"did not end within {limit_s:g} s")
        time.sleep(2e-5)
