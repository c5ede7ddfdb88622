"""Makes tensor maps for the emulator, under the rules that cuTensorMapEncodeTiled has on a device.

No driver is asked: a map made here is of use to evoflash.emulator.launch alone.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from evoflash.errors import UsageError
from evoflash.launch import SWIZZLES

Swizzle = Literal[0, 32, 64, 128]  # bytes of the span in which 16-byte chunks change places

_MOST_DIMS = 5
_MOST_DIM = 1 << 32
_STRIDE_END = 1 << 40
_MOST_BOX = 256
_MARK = 0x70616D74  # kMapMark in emu/tma.cpp
# efemu::TensorMap in emu/interface.h.
_LAYOUT = np.dtype(
    {
        "names": (
            *("base", "rank", "element_bytes", "swizzle_bytes", "fill_nan"),
            *("dim", "stride", "box", "reserved"),
        ),
        "formats": ("u8", "u4", "u4", "u4", "u4", ("u8", 5), ("u8", 4), ("u4", 5), "u4"),
        "offsets": (0, 8, 12, 16, 20, 24, 64, 96, 116),
        "itemsize": 128,
    }
)


def tensor_map(
    address: int,
    dims: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    *,
    element_bytes: int = 2,
    swizzle: int = 0,
    fill_nan: bool = False,
) -> np.void:
    """A kernel argument for a parameter `EF_TMAP(name)`: boxes of a tensor at `address`.

    `dims` are its extents in elements, the contiguous dimension first; `strides`, in bytes, those of the
    other dimensions; `box` the extents of what one copy moves. Elements outside of the tensor are loaded as
    zeros, or as NaN with `fill_nan`. UsageError where a GPU's driver would refuse the map.
    """
    _check_shape(dims, strides, box)
    _check_memory(address, dims, strides, element_bytes)
    _check_box(box, element_bytes, swizzle)
    value: np.void = np.zeros(1, _LAYOUT)[0]
    value["base"] = address
    value["rank"] = len(dims)
    value["element_bytes"] = element_bytes
    value["swizzle_bytes"] = swizzle
    value["fill_nan"] = fill_nan
    value["dim"][: len(dims)] = dims
    value["stride"][: len(strides)] = strides
    value["box"][: len(box)] = box
    value["reserved"] = _MARK
    return value


def _check_shape(dims: Sequence[int], strides: Sequence[int], box: Sequence[int]) -> None:
    rank = len(dims)
    if not 1 <= rank <= _MOST_DIMS:
        raise UsageError(f"a tensor map of {rank} dimensions: it has 1 to {_MOST_DIMS}.")
    if len(strides) != rank - 1 or len(box) != rank:
        raise UsageError(
            f"a tensor map of {rank} dimensions with {len(strides)} strides and {len(box)} box sides: "
            f"give {rank - 1} and {rank}."
        )
    if min(dims) < 1 or max(dims) > _MOST_DIM:
        raise UsageError(f"a tensor map of dimensions {tuple(dims)}: each is 1 to 2^32.")


def _check_memory(address: int, dims: Sequence[int], strides: Sequence[int], element_bytes: int) -> None:
    if element_bytes not in (1, 2, 4):
        raise UsageError(f"a tensor map of {element_bytes}-byte elements: the emulator knows 1, 2 and 4.")
    if address % 16:
        raise UsageError(f"a tensor map at address {address:#x}: it must be a multiple of 16.")
    if any(stride % 16 or not 0 <= stride < _STRIDE_END for stride in strides):
        raise UsageError(f"a tensor map of strides {tuple(strides)}: each is a multiple of 16 below 2^40.")


def _check_box(box: Sequence[int], element_bytes: int, swizzle: int) -> None:
    if min(box) < 1 or max(box) > _MOST_BOX:
        raise UsageError(f"a tensor map of box {tuple(box)}: each side is 1 to {_MOST_BOX}.")
    if swizzle not in SWIZZLES:
        raise UsageError(f"a tensor map of swizzle {swizzle}: it is 0, 32, 64 or 128 bytes.")
    row_bytes = box[0] * element_bytes
    if row_bytes % 16:
        raise UsageError(f"a box row of {row_bytes} bytes: it must be a multiple of 16.")
    if swizzle and row_bytes > swizzle:
        raise UsageError(f"a box row of {row_bytes} bytes: with this swizzle it has at most {swizzle}.")
    if swizzle and row_bytes < swizzle:
        raise UsageError(
            f"a box row of {row_bytes} bytes: a GPU may take it, but the emulator knows only rows of the "
            f"swizzle's whole {swizzle} bytes."
        )
