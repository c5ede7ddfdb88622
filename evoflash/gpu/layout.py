"""How a tensor lies in memory, dense or with other axes in front and gaps between its rows.

NumPy only; knows no GPU, and judges nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.operation import ELEMENT_BYTES, TensorSpec

POISON = 0xFF  # all ones is NaN in fp16, bf16 and fp32
_KINDS: dict[str, Any] = {"fp16": np.uint16, "bf16": np.uint16, "fp32": np.float32}


@dataclass(frozen=True, slots=True)
class Layout:
    """A tensor's place in memory: the order of its axes, and elements between two rows."""

    spec: TensorSpec
    order: tuple[int, ...]  # of its axes in memory, the columns last
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
    def row_bytes(self) -> int:
        """Of one row, and of what follows it up to the next."""
        return (self.spec.shape[-1] + self.gap) * ELEMENT_BYTES[self.spec.dtype]

    @property
    def size_bytes(self) -> int:
        return math.prod(self.spec.shape[:-1]) * self.row_bytes

    def row_offsets(self) -> NDArray[np.int64]:
        """Where each row begins, in elements; rows counted through in the tensor's own order."""
        places = np.indices(self.spec.shape[:-1], dtype=np.int64).reshape(len(self.spec.shape) - 1, -1)
        strides = np.array(self.strides[:-1], np.int64)
        offsets: NDArray[np.int64] = (places * strides[:, None]).sum(axis=0, dtype=np.int64)
        return offsets

    def image(self, values: NDArray[Any] | None = None) -> NDArray[np.uint8]:
        """The bytes in memory of a tensor of these values, poison between rows; without values all poison."""
        if values is not None and self.is_dense:
            return np.ascontiguousarray(values).view(np.uint8).reshape(-1)
        memory = np.full(self.size_bytes, POISON, np.uint8)
        if values is not None:
            self._view(memory)[...] = values
        return memory

    def values(self, memory: NDArray[np.uint8]) -> NDArray[Any]:
        """The tensor in those bytes of memory."""
        return np.ascontiguousarray(self._view(memory))

    def between_rows(self, memory: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The bytes between rows: (rows, bytes)."""
        row = self.spec.shape[-1] * ELEMENT_BYTES[self.spec.dtype]
        return memory.reshape(-1, self.row_bytes)[:, row:]

    def _view(self, memory: NDArray[np.uint8]) -> NDArray[Any]:
        extents = [self.spec.shape[axis] for axis in self.order]
        whole = memory.view(_KINDS[self.spec.dtype]).reshape(*extents[:-1], extents[-1] + self.gap)
        view: NDArray[Any] = whole[..., : extents[-1]].transpose(np.argsort(self.order))
        return view


def dense(spec: TensorSpec) -> Layout:
    """The tensor as it is, row behind row."""
    return Layout(spec, tuple(range(len(spec.shape))))


def apart(spec: TensorSpec) -> Layout:
    """A tensor as its operation says that it may lie otherwise (TensorSpec.spread and .gap); else dense."""
    return Layout(spec, spec.spread, spec.gap) if spec.spread else dense(spec)


def layouts_of(specs: tuple[TensorSpec, ...], *, is_strided: bool) -> dict[str, Layout]:
    """The layouts of a call's tensors by name: all dense, or apart."""
    return {spec.name: apart(spec) if is_strided else dense(spec) for spec in specs}
