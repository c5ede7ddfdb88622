"""Device memory: how tensors lie in it, guards around it, and a kernel's arguments for it. Launches nothing.

All memory of checks and of timing is allocated here. A buffer is between two bands of random bytes that must
stay as they are: its own (GuardedBuffer), or those of a larger piece of memory that it is a part of
(batch.py). A call's tensors are buffers with layouts: dense, or with their axes in another order and gaps
between their rows.

An address tells a kernel nothing: bands are of one size, and a random number of bytes lies before each. The
number is a multiple of 256, as that of a program's tensors mostly is, because a row across two lines of the
cache costs time; in every second check of 16, which is all that kernels may count on.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.errors import DeviceError
from evoflash.gpu.driver import PackedArguments, encode_map, pack_arguments
from evoflash.gpu.launcher import LoadedKernel, cupy, settle
from evoflash.launch import TensorMapSpec, geometry
from evoflash.numerics import ARRAY_TYPES
from evoflash.operation import operation_of
from evoflash.workload import ELEMENT_BYTES, TensorSpec, Workload

GUARD_BYTES = 32768  # on either side of a tensor: more than a tile row of any family overshoots
SPREAD_BYTES = 4096  # of the random distance before a tensor
FINE, COARSE = 16, 256  # bytes, whose multiple that distance is
POISON = 0xFF  # all ones is NaN in e4m3, fp16, bf16 and fp32


@dataclass(frozen=True, slots=True)
class Layout:
    """A tensor's place in memory: the order of its axes, and elements between two rows."""

    spec: TensorSpec
    order: tuple[int, ...]  # of its axes in memory
    gap: int = 0

    @property
    def is_dense(self) -> bool:
        return not self.gap and self.order == tuple(range(len(self.spec.shape)))

    @property
    def strides(self) -> tuple[int, ...]:
        """In elements, by axis of the tensor."""
        if self.is_dense:
            return self.spec.strides
        extents = [self.spec.shape[axis] for axis in self.order]
        extents[-1] += self.gap
        by_place = {axis: math.prod(extents[place + 1 :]) for place, axis in enumerate(self.order)}
        return tuple(by_place[axis] for axis in range(len(self.order)))

    @property
    def filled_bytes(self) -> int:
        """Of one row in memory: of the axis that lies innermost."""
        return self.spec.shape[self.order[-1]] * ELEMENT_BYTES[self.spec.dtype]

    @property
    def row_bytes(self) -> int:
        """Of one row, and of what follows it up to the next."""
        return self.filled_bytes + self.gap * ELEMENT_BYTES[self.spec.dtype]

    @property
    def size_bytes(self) -> int:
        return math.prod(self.spec.shape[axis] for axis in self.order[:-1]) * self.row_bytes

    def row_offsets(self) -> NDArray[np.int64]:
        """Where each row begins, in elements; rows counted through in the tensor's own order."""
        places = np.indices(self.spec.shape[:-1], dtype=np.int64).reshape(len(self.spec.shape) - 1, -1)
        strides = np.array(self.strides[:-1], np.int64)
        offsets: NDArray[np.int64] = (places * strides[:, None]).sum(axis=0, dtype=np.int64)
        return offsets

    def offsets(self) -> NDArray[np.int64]:
        """Where each element lies, in elements; counted through in the tensor's own order."""
        places = np.indices(self.spec.shape, dtype=np.int64).reshape(len(self.spec.shape), -1)
        strides = np.array(self.strides, np.int64)
        found: NDArray[np.int64] = (places * strides[:, None]).sum(axis=0, dtype=np.int64)
        return found

    def image(self, values: NDArray[Any] | None = None) -> NDArray[np.uint8]:
        """The bytes in memory of a tensor of these values, poison between rows; without values all poison."""
        if values is not None and self.is_dense:
            return raw_bytes(values)
        memory = np.full(self.size_bytes, POISON, np.uint8)
        if values is not None:
            self._view(memory)[...] = values
        return memory

    def values(self, memory: NDArray[np.uint8]) -> NDArray[Any]:
        """The tensor in those bytes of memory."""
        return np.ascontiguousarray(self._view(memory))

    def between_rows(self, memory: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The bytes between rows: (rows, bytes)."""
        return memory.reshape(-1, self.row_bytes)[:, self.filled_bytes :]

    def _view(self, memory: NDArray[np.uint8]) -> NDArray[Any]:
        extents = [self.spec.shape[axis] for axis in self.order]
        whole = memory.view(ARRAY_TYPES[self.spec.dtype]).reshape(*extents[:-1], extents[-1] + self.gap)
        view: NDArray[Any] = whole[..., : extents[-1]].transpose(np.argsort(self.order))
        return view


def layouts_of(specs: tuple[TensorSpec, ...], *, is_strided: bool) -> dict[str, Layout]:
    """The layouts of a call's tensors by name: all dense; or apart, those of which the operation says that
    they may lie otherwise (TensorSpec.spread and .gap).
    """
    return {
        spec.name: Layout(spec, spec.spread, spec.gap)
        if is_strided and spec.spread
        else Layout(spec, tuple(range(len(spec.shape))))
        for spec in specs
    }


class NoRoomError(DeviceError):
    """The GPU's memory is used up, by whomever."""


def allocate(size_bytes: int) -> Any:
    """A CuPy array of uint8. NoRoomError when the memory is used up."""
    try:
        return cupy().empty(size_bytes, dtype=np.uint8)
    except cupy().cuda.memory.OutOfMemoryError:
        raise NoRoomError(
            f"the GPU has no {size_bytes >> 20} MiB left: stop what else runs on it (nvidia-smi), or choose "
            "a smaller problem."
        ) from None


def has_room(size_bytes: int) -> bool:
    """Whether a quarter of the device's memory stays free: the arenas and benches of any problem go first."""
    free, total = cupy().cuda.runtime.memGetInfo()
    return bool(free + cupy().get_default_memory_pool().free_bytes() - size_bytes >= total // 4)


def on_device(values: NDArray[Any]) -> Any:
    """A copy on the device, as a CuPy array of uint8. NoRoomError when the memory is used up."""
    memory = allocate(values.nbytes)
    memory.set(raw_bytes(values))
    settle()
    return memory


def raw_bytes(values: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(values).view(np.uint8).reshape(-1)


def step_of_check(rng: np.random.Generator) -> int:
    """What the tensors of one checked launch begin at multiples of."""
    return FINE if rng.random() < 0.5 else COARSE


def distance(step: int, rng: np.random.Generator) -> int:
    """A random multiple of `step` below SPREAD_BYTES."""
    return step * int(rng.integers(SPREAD_BYTES // step))


class DeviceBuffer:
    """Some bytes of a piece of device memory."""

    def __init__(self, memory: Any, begin: int, size_bytes: int) -> None:
        self._memory, self._begin, self.size_bytes = memory, begin, size_bytes

    @property
    def pointer(self) -> int:
        return int(self._memory.data.ptr) + self._begin

    @property
    def device_bytes(self) -> Any:
        """As a CuPy array of uint8 on the same memory."""
        return self._memory[self._begin : self._begin + self.size_bytes]

    def write(self, values: NDArray[np.uint8]) -> None:
        self.device_bytes.set(values)

    def copy(self, image: Any) -> None:
        """The same from the device; whoever calls must settle()."""
        self.device_bytes.data.copy_from_device(image.data, self.size_bytes)

    def fill(self, byte: int, stream: Any) -> None:
        """One byte everywhere, in stream order."""
        self.device_bytes.data.memset_async(byte, self.size_bytes, stream)

    def poison(self, stream: Any) -> None:
        """NaN everywhere: what a kernel does not write is seen."""
        self.fill(POISON, stream)

    def read(self) -> NDArray[np.uint8]:
        data: NDArray[np.uint8] = self.device_bytes.get()
        return data


class GuardedBuffer(DeviceBuffer):
    """Device bytes in memory of their own, between two bands of random ones."""

    def __init__(self, payload_bytes: int, *, rng: np.random.Generator, step: int = COARSE) -> None:
        """It begins at a multiple of `step` bytes. NoRoomError when the device's memory is used up."""
        begin, size = distance(step, rng), payload_bytes + 2 * GUARD_BYTES
        super().__init__(allocate(size + SPREAD_BYTES)[begin : begin + size], GUARD_BYTES, payload_bytes)
        self._bands = np.frombuffer(rng.bytes(2 * GUARD_BYTES), np.uint8).reshape(2, GUARD_BYTES)
        self._memory[:GUARD_BYTES].set(self._bands[0])
        self._memory[GUARD_BYTES + payload_bytes :].set(self._bands[1])
        self._image = on_device(self._bands)

    @property
    def bands(self) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """Of both bands the address, that of what should lie there, and the bytes."""
        begin, image, size = int(self._memory.data.ptr), int(self._image.data.ptr), self._begin
        return (begin, image, size), (begin + size + self.size_bytes, image + size, size)

    def fault(self) -> str:
        """Empty while the bands are intact; else how many bytes changed, and where the first one lies."""
        below = self._memory[: self._begin].get() != self._bands[0]
        above = self._memory[self._begin + self.size_bytes :].get() != self._bands[1]
        return stray_bytes(below, above)


def stray_bytes(below: NDArray[np.bool_], above: NDArray[np.bool_]) -> str:
    """Which bytes changed in the bands before and behind a buffer, in words; empty where none did."""
    if above.any():
        return f"{int(above.sum())} bytes past its end, the first {int(above.argmax())} bytes behind"
    if below.any():
        return f"{int(below.sum())} bytes before its start, the last {int(below[::-1].argmax()) + 1} ahead"
    return ""


_SMALL = 1 << 23  # bytes: those of check shapes, of which a candidate has several


def workspace(size_bytes: int, zeroed_bytes: int) -> GuardedBuffer:
    """So much of it for kernels that expect so many zeros at its beginning before each launch."""
    return (_small if size_bytes <= _SMALL else _any)(size_bytes, zeroed_bytes)


@lru_cache(maxsize=8)
def _any(size_bytes: int, zeroed_bytes: int) -> GuardedBuffer:
    # One for all arenas, as a user would have: kernels of one stream never use it at the same time. Whoever
    # expects zeros shares it with none that leaves other things there.
    return GuardedBuffer(size_bytes, rng=np.random.default_rng())


_small = lru_cache(maxsize=64)(_any.__wrapped__)


def scratch_of(kernel: LoadedKernel) -> int:
    """The address of the kernel's, with zeros where the kernel expects them; 0 where it has none."""
    if not kernel.workspace_bytes:
        return 0
    buffer = workspace(*kernel.scratch)
    if kernel.zeroed_bytes:
        settle()
        buffer.device_bytes.data.memset(0, kernel.zeroed_bytes)
        settle()
    return buffer.pointer


class CallArguments:
    """A kernel's arguments for the tensors of one call. They are kept: a graph takes them of 60 calls, and of
    the candidates of a search most ask for the same.
    """

    def __init__(
        self,
        workload: Workload,
        buffers: Mapping[str, DeviceBuffer],
        layouts: Mapping[str, Layout],
        *,
        without: Collection[str] = (),
    ) -> None:
        """By tensor name; `without` are the outputs that kernels are not asked for."""
        self._workload, self._buffers, self._layouts, self._without = workload, buffers, layouts, without
        self._plain: dict[int, PackedArguments] = {}
        self._maps: dict[TensorMapSpec, PackedArguments] = {}

    def values(self, kernel: LoadedKernel, scratch: int, *, without: Collection[str]) -> tuple[Any, ...]:
        """For LoadedKernel.enqueue(), tensor maps first; `scratch` is the address of its workspace, or 0. A
        null pointer tells it not to write an output that is left out.
        """
        maps = (value for wanted in kernel.maps for value in self._map(wanted).values)
        return *maps, *self._arguments(scratch, without)

    def pack(self, kernel: LoadedKernel, scratch: int) -> PackedArguments:
        """The same for LoadedKernel.enqueue_packed(), without the outputs that no kernel is asked for."""
        if scratch not in self._plain:
            self._plain[scratch] = pack_arguments(self._arguments(scratch, self._without))
        maps = (self._map(wanted) for wanted in kernel.maps)
        return sum(maps, start=PackedArguments((), ())) + self._plain[scratch]

    def _arguments(self, scratch: int, without: Collection[str]) -> tuple[np.generic, ...]:
        addresses = {name: 0 if name in without else x.pointer for name, x in self._buffers.items()}
        strides = {name: layout.strides for name, layout in self._layouts.items()}
        operation = operation_of(self._workload)
        return operation.arguments(self._workload, addresses, strides, workspace=scratch)

    def _map(self, wanted: TensorMapSpec) -> PackedArguments:
        if wanted not in self._maps:
            spec, strides = self._layouts[wanted.of].spec, self._layouts[wanted.of].strides
            encoded = encode_map(
                self._buffers[wanted.of].pointer,
                *geometry(wanted, spec.shape, [ELEMENT_BYTES[spec.dtype] * stride for stride in strides]),
                dtype=spec.dtype,
                swizzle=wanted.swizzle,
                l2_promotion=wanted.l2_promotion,
            )
            self._maps[wanted] = pack_arguments([encoded])
        return self._maps[wanted]
