"""Enqueues many launches of a candidate together and waits for them once. Judges no output.

The tables of comparisons.py say what the launches left behind. Each launch has guarded tensors of its own on
one slab of device memory, which is restored by one copy. What a kernel does to memory or to the machine
leaves here as it does from a single launch, see arena.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.gpu.arena import MemoryFaultError, check_workspaces, verify_copy
from evoflash.gpu.comparisons import Comparison, ComparisonBatch, MemoryPair, RowComparison, UntouchedRows
from evoflash.gpu.driver import PackedArguments
from evoflash.gpu.launcher import KernelHungError, LoadedKernel, beside_others, cupy, new_stream, settle, wait
from evoflash.gpu.memory import (
    GUARD_BYTES,
    SPREAD_BYTES,
    CallArguments,
    DeviceBuffer,
    GuardedBuffer,
    Layout,
    allocate,
    distance,
    layouts_of,
    step_of_check,
    stray_bytes,
    workspace,
)
from evoflash.operation import operation_of
from evoflash.validation.plan import CheckLaunch
from evoflash.workload import Workload

_ALIGNMENT = 256  # bytes


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a run's tensors lie: bytes from the begin of the slab."""

    begin: int
    end: int
    payloads: dict[str, tuple[int, Layout]]


def bytes_of(workload: Workload, runs: Sequence[CheckLaunch]) -> int:
    """What a slab of those runs takes, the image not counted."""
    return _places(workload, runs, np.random.default_rng(0))[-1].end


def _places(workload: Workload, runs: Sequence[CheckLaunch], rng: np.random.Generator) -> list[_Place]:
    specs, places, at = operation_of(workload).tensors(workload), [], 0
    for run in runs:
        begin, payloads, step = at, {}, step_of_check(rng)
        for name, layout in layouts_of(specs, is_strided=run.is_strided).items():
            payloads[name] = (at + GUARD_BYTES + distance(step, rng), layout)
            at += GUARD_BYTES + SPREAD_BYTES - -layout.size_bytes // _ALIGNMENT * _ALIGNMENT
        at += GUARD_BYTES
        places.append(_Place(begin, at, payloads))
    return places


class Slab:
    """The memory of some runs on one workload."""

    def __init__(self, workload: Workload, runs: Sequence[CheckLaunch], *, rng: np.random.Generator) -> None:
        """NoRoomError when the device's memory is used up."""
        self.workload, self.runs = workload, tuple(runs)
        self._places = _places(workload, runs, rng)
        self._memory, self._image = (allocate(self._places[-1].end) for _ in range(2))
        for run, place in zip(self.runs, self._places, strict=True):
            self._image[place.begin : place.end].set(self._pristine(run, place, rng))
        settle()
        self._arguments = [self._arguments_of(*each) for each in zip(self.runs, self._places, strict=True)]

    def _arguments_of(self, run: CheckLaunch, place: _Place) -> CallArguments:
        layouts = {name: layout for name, (_, layout) in place.payloads.items()}
        buffers = {
            name: DeviceBuffer(self._memory, at, layout.size_bytes)
            for name, (at, layout) in place.payloads.items()
        }
        return CallArguments(self.workload, buffers, layouts, without=run.without)

    def _pristine(self, run: CheckLaunch, place: _Place, rng: np.random.Generator) -> NDArray[np.uint8]:
        memory = np.empty(place.end - place.begin, np.uint8)
        at, inputs = 0, run.inputs.tensors
        for name, (payload, layout) in place.payloads.items():
            begin = payload - place.begin
            memory[at:begin] = np.frombuffer(rng.bytes(begin - at), np.uint8)
            at = begin + layout.size_bytes
            memory[begin:at] = layout.image(inputs.get(name))
        memory[at:] = np.frombuffer(rng.bytes(len(memory) - at), np.uint8)
        return memory

    def restore(self, stream: Any) -> None:
        """Put everything back as the first candidate found it, in stream order."""
        self._memory.data.copy_from_device_async(self._image.data, self._memory.nbytes, stream)

    def address(self, run: int, name: str) -> int:
        return int(self._memory.data.ptr) + self._places[run].payloads[name][0]

    def inputs(self, run: int) -> dict[str, int]:
        """The addresses of a run's inputs in the image, where no kernel writes."""
        image, payloads = int(self._image.data.ptr), self._places[run].payloads
        return {name: image + at for name, (at, layout) in payloads.items() if layout.spec.role == "input"}

    def arguments(self, run: int, kernel: LoadedKernel, *, scratch: int) -> PackedArguments:
        return self._arguments[run].pack(kernel, scratch)

    def read_only_pairs(self) -> list[list[MemoryPair]]:
        """For each run, all of its memory that no kernel may change, against the image."""
        return [self._read_only_pairs(run, place) for run, place in zip(self.runs, self._places, strict=True)]

    def _read_only_pairs(self, run: CheckLaunch, place: _Place) -> list[MemoryPair]:
        pairs, at = [], place.begin
        for name, (payload, layout) in place.payloads.items():
            if layout.spec.role == "input" or name in run.without:
                continue
            pairs.append(self._pair(at, payload))
            at = payload + layout.size_bytes
            if layout.gap:
                ignored = layout.filled_bytes
                pairs.append(self._pair(payload, at, period=layout.row_bytes, ignored=ignored))
        return [*pairs, self._pair(at, place.end)]

    def _pair(self, begin: int, end: int, *, period: int = 0, ignored: int = 0) -> MemoryPair:
        memory, image = int(self._memory.data.ptr), int(self._image.data.ptr)
        return MemoryPair(memory + begin, image + begin, end - begin, period, ignored)

    def verify(self) -> None:
        """Raises MemoryFaultError where an input in the image is not what was uploaded; reads all of them."""
        for run, place in zip(self.runs, self._places, strict=True):
            for name, values in run.inputs.tensors.items():
                at, layout = place.payloads[name]
                verify_copy(self._image[at : at + layout.size_bytes], layout.image(values), name)

    def fault(self, run: int) -> MemoryFaultError:
        """What a kernel did to a run's memory that it must not, in words; for when a comparison said so."""
        place = self._places[run]
        now, before = (x[place.begin : place.end].get() for x in (self._memory, self._image))
        changed = now != before
        tensors = [(name, at - place.begin, layout) for name, (at, layout) in place.payloads.items()]
        begins = [*(at for _, at, _ in tensors), len(changed) + GUARD_BYTES]
        for (name, at, layout), following in zip(tensors, begins[1:], strict=True):
            end = at + layout.size_bytes
            above, below = changed[end : following - GUARD_BYTES // 2], changed[at - GUARD_BYTES // 2 : at]
            if said := stray_bytes(below, above):
                return MemoryFaultError(f"wrote outside {name}: {said}")
        for name, at, layout in tensors:
            within = changed[at : at + layout.size_bytes]
            if layout.spec.role == "input" and within.any():
                return MemoryFaultError(f"changed its input {name}")
            if layout.gap and layout.between_rows(within).any():
                return MemoryFaultError(f"wrote between the rows of {name}")
        return MemoryFaultError("wrote where it must not, in the memory of another launch")


_NOT_READY = 600  # cudaErrorNotReady
_LIMIT_S = 20.0  # of the comparisons

# Answers to comparisons of each kind, in their order, as comparisons.py describes them.
Answers = Mapping[type[Comparison], NDArray[Any]]
Scratch = tuple[int, int]  # a workspace's size, and how much of it is zeroed; bytes


class Batch:
    """Slabs, what is compared on them, and the stream on which all of it happens."""

    def __init__(self, slabs: Sequence[Slab], compared: Sequence[Comparison]) -> None:
        """NoRoomError when the device's memory is used up."""
        self.slabs, self.stream = tuple(slabs), new_stream()
        self._runs = [(at, run) for at, slab in enumerate(slabs) for run in range(len(slab.runs))]
        unchanged = [pairs for slab in slabs for pairs in slab.read_only_pairs()]
        self._owners = np.repeat(np.arange(len(unchanged)), [len(pairs) for pairs in unchanged])
        self._unchanged = ComparisonBatch([pair for pairs in unchanged for pair in pairs])
        self._tables = {
            kind: ComparisonBatch([each for each in compared if isinstance(each, kind)])
            for kind in (RowComparison, MemoryPair, UntouchedRows)
        }

    def run(self, kernels: Sequence[LoadedKernel], *, limit_s: float) -> Answers:
        """Every run of every slab with the slab's kernel, then the comparisons: what they found, by kind.

        Raises MemoryFaultError, KernelHungError when one launch takes longer than `limit_s`, CuPy's errors.
        """
        scratch = {each.scratch: workspace(*each.scratch) for each in kernels if each.workspace_bytes}
        zeros = {key: _zeros(buffer, key[1]) for key, buffer in scratch.items() if key[1]}
        with beside_others():
            for event in self._enqueue_all(kernels, scratch, zeros):
                _wait_for(event, limit_s=limit_s)
            wait(self.stream, limit_s=_LIMIT_S)
            self._check_memory(scratch.values(), zeros.values())
            return {kind: table.read() for kind, table in self._tables.items()}

    def _enqueue_all(
        self,
        kernels: Sequence[LoadedKernel],
        scratch: Mapping[Scratch, GuardedBuffer],
        zeros: Mapping[Scratch, ComparisonBatch],
    ) -> list[Any]:
        """All launches and comparisons; an event for each launch that comes with its end."""
        with self.stream:
            for slab in self.slabs:
                slab.restore(self.stream)
            for table in (self._unchanged, *self._tables.values(), *zeros.values()):
                table.reset(self.stream)
            ended = [self._enqueue(at, run, kernels[at], scratch, zeros) for at, run in self._runs]
            for table in (self._unchanged, *self._tables.values()):
                table.ask()
        return ended

    def _enqueue(
        self,
        at: int,
        run: int,
        kernel: LoadedKernel,
        scratch: Mapping[Scratch, GuardedBuffer],
        zeros: Mapping[Scratch, ComparisonBatch],
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

    def _check_memory(self, scratch: Iterable[GuardedBuffer], zeros: Iterable[ComparisonBatch]) -> None:
        changed = self._unchanged.read()[:, 0]
        if changed.any():
            slab, run = self._runs[int(self._owners[int(changed.argmax())])]
            raise self.slabs[slab].fault(run)
        check_workspaces(scratch, is_dirty=any(table.read().any() for table in zeros))


@lru_cache(maxsize=64)
def _zeros(buffer: GuardedBuffer, size_bytes: int) -> ComparisonBatch:
    """Whether the begin of a workspace is zero."""
    return ComparisonBatch([MemoryPair(buffer.pointer, 0, size_bytes)])


def _wait_for(event: Any, *, limit_s: float) -> None:
    """As launcher.wait(), for an event; an error is left to that."""
    query, deadline = cupy().cuda.runtime.eventQuery, time.monotonic() + limit_s
    while query(event.ptr) == _NOT_READY:
        if time.monotonic() > deadline:
            raise KernelHungError(f"did not end within {limit_s:g} s")
        time.sleep(2e-5)
