"""Tensor maps by the CUDA driver, and a kernel that takes them. Compiles, judges and times nothing."""

import ctypes
from functools import cache
from typing import Any

import numpy as np
from hopper_cases import Configuration, TensorMap
from numpy.typing import NDArray

from evoflash.evaluation import Build
from evoflash.launcher import LoadedKernel
from evoflash.problem import Workload

_MAP = np.dtype([("words", np.uint64, (16,))])  # a CUtensorMap
_MAP_ALIGNMENT = 128
# Enumerations of cuda.h. bf16 travels as f16: nothing is computed on the way.
_FLOAT16, _NO_INTERLEAVE, _SWIZZLE_128B, _PROMOTE_256B, _ZEROS_OUTSIDE = 6, 0, 3, 3, 0


@cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def encode(tensor: TensorMap) -> NDArray[np.void]:
    """The driver's form of a tensor map: one element of 128 bytes, which CuPy passes by value."""
    room = np.zeros(2 * _MAP.itemsize, np.uint8)
    start = -room.ctypes.data % _MAP_ALIGNMENT
    place = room[start : start + _MAP.itemsize]
    rank = len(tensor.sizes)
    status = _driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(place.ctypes.data),
        ctypes.c_int(_FLOAT16),
        ctypes.c_uint32(rank),
        ctypes.c_void_p(tensor.pointer),
        (ctypes.c_uint64 * rank)(*tensor.sizes),
        (ctypes.c_uint64 * (rank - 1))(*tensor.strides_bytes),
        (ctypes.c_uint32 * rank)(*tensor.box),
        (ctypes.c_uint32 * rank)(*[1] * rank),
        ctypes.c_int(_NO_INTERLEAVE),
        ctypes.c_int(_SWIZZLE_128B),
        ctypes.c_int(_PROMOTE_256B),
        ctypes.c_int(_ZEROS_OUTSIDE),
    )
    if status:
        raise RuntimeError(f"cuTensorMapEncodeTiled returned {status} for {tensor}")
    return place.copy().view(_MAP)


class TmaKernel(LoadedKernel):
    """A configuration's cubin for one workload; makes its tensor maps from the pointers that it is given."""

    def __init__(self, build: Build, configuration: Configuration, workload: Workload) -> None:
        super().__init__(build.cubin_path, (configuration.launch(workload),))
        self._configuration, self._workload = configuration, workload

    def enqueue(self, arguments: tuple[np.generic, ...]) -> None:
        """See LoadedKernel; tensors are dense."""
        q, k, v, o = (int(pointer) for pointer in arguments[:4])
        maps = self._configuration.maps(self._workload, (q, k, v, o))
        given: tuple[Any, ...] = (*(encode(tensor) for tensor in maps), *arguments)
        super().enqueue(given)
