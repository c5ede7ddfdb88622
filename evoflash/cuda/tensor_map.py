"""Tensor maps for a GPU, encoded by its driver. The emulator's are made in emulator/tensor_map.py."""

import ctypes
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evoflash.cuda.launch_attributes import driver
from evoflash.errors import UsageError

_MAP = np.dtype([("words", np.uint64, (16,))])  # a CUtensorMap
_MAP_ALIGNMENT = 128  # bytes; less makes some drivers refuse
# CUtensorMapDataType, CUtensorMapSwizzle and CUtensorMapL2promotion of cuda.h.
_DTYPES = {"f16": 6, "bf16": 9, "float": 7}
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_PROMOTIONS = {0: 0, 64: 1, 128: 2, 256: 3}


def encoded_map(
    address: int,
    dims: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    *,
    dtype: str = "f16",
    swizzle: int = 0,
    fill_nan: bool = False,
    l2_promotion: int = 256,
) -> NDArray[np.void]:
    """A kernel argument for a parameter `EF_TMAP(name)`: one element of 128 bytes, passed by value.

    See emulator/tensor_map.py for the description; `dtype` is "f16", "bf16" or "float", `l2_promotion` the
    bytes that L2 fetches together (0, 64, 128 or 256). UsageError where the driver refuses it.
    """
    room = np.zeros(2 * _MAP.itemsize, np.uint8)
    begin = -room.ctypes.data % _MAP_ALIGNMENT
    place = room[begin : begin + _MAP.itemsize]
    rank = len(dims)
    status = driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(place.ctypes.data),
        ctypes.c_int(_DTYPES[dtype]),
        ctypes.c_uint32(rank),
        ctypes.c_void_p(address),
        (ctypes.c_uint64 * rank)(*dims),
        (ctypes.c_uint64 * max(rank - 1, 1))(*strides),
        (ctypes.c_uint32 * rank)(*box),
        (ctypes.c_uint32 * rank)(*[1] * rank),  # every element of the box
        ctypes.c_int(0),  # no interleave
        ctypes.c_int(_SWIZZLES[swizzle]),
        ctypes.c_int(_PROMOTIONS[l2_promotion]),
        ctypes.c_int(fill_nan),
    )
    if status:
        raise UsageError(
            f"the driver refuses a tensor map (error {status}): {dtype} at {address:#x}, dimensions "
            f"{tuple(dims)}, strides {tuple(strides)}, box {tuple(box)}, swizzle {swizzle}."
        )
    result: NDArray[np.void] = place.copy().view(_MAP)
    return result
