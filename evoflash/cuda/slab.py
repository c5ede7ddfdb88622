"""Device memory for many launches on one workload: guarded tensors for each, restored by one copy.

An image of the slab lies elsewhere on the device: inputs, guards and poisoned outputs as every candidate
finds them. Launches nothing and judges no output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.cuda.arena import DTYPES_OF_MAPS, MemoryFaultError, spoilt
from evoflash.cuda.comparisons import Pair
from evoflash.cuda.guarded_buffer import GUARD_BYTES, allocate
from evoflash.cuda.launch_attributes import Packed, packed
from evoflash.cuda.launcher import LoadedKernel, settle
from evoflash.cuda.layout import Layout, layouts_of
from evoflash.cuda.tensor_map import encoded_map
from evoflash.evaluation import TensorMap, geometry
from evoflash.operation import ELEMENT_BYTES, Output, TestInput, Workload
from evoflash.operation.registry import operation_of

_ALIGNMENT = 256  # bytes


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One launch: its inputs, the outputs that it is not asked for, and whether tensors lie apart."""

    inputs: TestInput
    without: tuple[str, ...] = ()
    is_strided: bool = False


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a run's tensors lie: bytes from the begin of the slab."""

    begin: int
    end: int
    payloads: dict[str, tuple[int, Layout]]


def bytes_of(workload: Workload, runs: Sequence[Run]) -> int:
    """What a slab of those runs takes, the image not counted."""
    return _places(workload, runs)[-1].end


def _places(workload: Workload, runs: Sequence[Run]) -> list[_Place]:
    specs, places, at = operation_of(workload).tensors(workload), [], 0
    for run in runs:
        begin, payloads = at, {}
        for name, layout in layouts_of(specs, is_strided=run.is_strided).items():
            payloads[name] = (at + GUARD_BYTES, layout)
            at += GUARD_BYTES - -layout.size_bytes // _ALIGNMENT * _ALIGNMENT
        at += GUARD_BYTES
        places.append(_Place(begin, at, payloads))
    return places


class Slab:
    """The memory of some runs on one workload."""

    def __init__(self, workload: Workload, runs: Sequence[Run], *, rng: np.random.Generator) -> None:
        """NoRoomError when the device's memory is used up."""
        self.workload, self.runs = workload, tuple(runs)
        self._operation = operation_of(workload)
        self._places = _places(workload, runs)
        self._memory, self._image = (allocate(self._places[-1].end) for _ in range(2))
        for run, place in zip(self.runs, self._places, strict=True):
            self._image[place.begin : place.end].set(self._pristine(run, place, rng))
        settle()
        self._plain: dict[tuple[int, int], Packed] = {}
        self._maps: dict[tuple[int, TensorMap], Packed] = {}

    def _pristine(self, run: Run, place: _Place, rng: np.random.Generator) -> NDArray[np.uint8]:
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
        """Of a run's tensor."""
        return int(self._memory.data.ptr) + self._places[run].payloads[name][0]

    def inputs(self, run: int) -> dict[str, int]:
        """The addresses of a run's inputs in the image, where no kernel writes."""
        image, payloads = int(self._image.data.ptr), self._places[run].payloads
        return {name: image + at for name, (at, layout) in payloads.items() if layout.spec.role == "input"}

    def arguments(self, run: int, kernel: LoadedKernel, *, scratch: int) -> Packed:
        """The kernel's arguments for a run, its tensor maps first, as Arena.arguments() has them."""
        if (run, scratch) not in self._plain:
            self._plain[run, scratch] = packed(self._arguments(run, scratch))
        maps = (self._map(run, wanted) for wanted in kernel.maps)
        return sum(maps, start=Packed((), ())) + self._plain[run, scratch]

    def _arguments(self, run: int, scratch: int) -> tuple[np.generic, ...]:
        without, payloads = self.runs[run].without, self._places[run].payloads
        addresses = {name: 0 if name in without else self.address(run, name) for name in payloads}
        strides = {name: layout.strides for name, (_, layout) in payloads.items()}
        return self._operation.arguments(self.workload, addresses, strides, workspace=scratch)

    def _map(self, run: int, wanted: TensorMap) -> Packed:
        if (run, wanted) not in self._maps:
            layout = self._places[run].payloads[wanted.of][1]
            strides = [ELEMENT_BYTES[layout.spec.dtype] * stride for stride in layout.strides]
            encoded = encoded_map(
                self.address(run, wanted.of),
                *geometry(wanted, layout.spec.shape, strides),
                dtype=DTYPES_OF_MAPS[layout.spec.dtype],
                swizzle=wanted.swizzle,
                l2_promotion=wanted.l2_promotion,
            )
            self._maps[run, wanted] = packed([encoded])
        return self._maps[run, wanted]

    def unchanged(self) -> list[list[Pair]]:
        """For each run, all of its memory that no kernel may change, against the image."""
        return [self._unchanged(run, place) for run, place in zip(self.runs, self._places, strict=True)]

    def _unchanged(self, run: Run, place: _Place) -> list[Pair]:
        pairs, at = [], place.begin
        for name, (payload, layout) in place.payloads.items():
            if layout.spec.role == "input" or name in run.without:
                continue
            pairs.append(self._pair(at, payload))
            at = payload + layout.size_bytes
            if layout.gap:
                row = layout.spec.shape[-1] * ELEMENT_BYTES[layout.spec.dtype]
                pairs.append(self._pair(payload, at, period=layout.row_bytes, ignored=row))
        return [*pairs, self._pair(at, place.end)]

    def _pair(self, begin: int, end: int, *, period: int = 0, ignored: int = 0) -> Pair:
        memory, image = int(self._memory.data.ptr), int(self._image.data.ptr)
        return Pair(memory + begin, image + begin, end - begin, period, ignored)

    def verify(self) -> None:
        """Raises MemoryFaultError where an input in the image is not what was uploaded; reads all of them."""
        for run, place in zip(self.runs, self._places, strict=True):
            for name, values in run.inputs.tensors.items():
                at, layout = place.payloads[name]
                if (self._image[at : at + layout.size_bytes].get() != layout.image(values)).any():
                    raise spoilt(name)

    def output(self, run: int) -> Output:
        """What a run's launch wrote, on the host."""
        tensors = {}
        for name, (payload, layout) in self._places[run].payloads.items():
            if layout.spec.role != "input" and name not in self.runs[run].without:
                tensors[name] = layout.values(self._memory[payload : payload + layout.size_bytes].get())
        return Output(tensors)

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
            if above.any():
                said = f"{int(above.sum())} bytes past its end, the first {int(above.argmax())} bytes behind"
                return MemoryFaultError(f"wrote outside {name}: {said}")
            if below.any():
                ahead = int(below[::-1].argmax()) + 1
                said = f"{int(below.sum())} bytes before its start, the last {ahead} ahead"
                return MemoryFaultError(f"wrote outside {name}: {said}")
        for name, at, layout in tensors:
            within = changed[at : at + layout.size_bytes]
            if layout.spec.role == "input" and within.any():
                return MemoryFaultError(f"changed its input {name}")
            if layout.gap and layout.between_rows(within).any():
                return MemoryFaultError(f"wrote between the rows of {name}")
        return MemoryFaultError("wrote where it must not, in the memory of another launch")
