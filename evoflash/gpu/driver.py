"""Tensor maps and launches with attributes, for which CuPy has no call, by the CUDA driver.

Such launches are those of clusters, of blocks that must all be resident, and of kernels that may begin before
the one before them has ended (cuLaunchKernelEx). The emulator's tensor maps are made in
emulator/tensor_map.py. Compiles nothing.
"""

import ctypes
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.errors import DeviceError, UsageError
from evoflash.launch import PORTABLE_CLUSTER, LaunchConfig

# CUlaunchAttributeID and CUfunction_attribute of cuda.h.
_COOPERATIVE, _CLUSTER, _STREAM_SERIALIZATION = 2, 4, 6
_LARGE_CLUSTERS_ALLOWED = 14


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute: the value is a union of 64 bytes, whose members here are unsigned numbers."""

    _fields_ = (("id", ctypes.c_uint32), ("pad", ctypes.c_uint32), ("value", ctypes.c_uint32 * 16))


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("smem_bytes", ctypes.c_uint32),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("attribute_count", ctypes.c_uint32),
    )


def is_plain(launch: LaunchConfig) -> bool:
    """Whether CuPy can launch it."""
    return math.prod(launch.cluster) == 1 and not launch.resident and not launch.dependent


def allow_cluster(function: int, launch: LaunchConfig) -> int:
    """Lets the function run in clusters of more blocks than every GPU has room for."""
    if math.prod(launch.cluster) <= PORTABLE_CLUSTER:
        return 0
    return int(driver().cuFuncSetAttribute(ctypes.c_void_p(function), _LARGE_CLUSTERS_ALLOWED, 1))


@dataclass(frozen=True, slots=True, eq=False)
class PackedArguments:
    """A kernel's arguments as the driver takes them: where each of them lies on the host."""

    places: tuple[int, ...]
    values: tuple[NDArray[Any], ...]  # what lies there, kept alive

    def __add__(self, other: "PackedArguments") -> "PackedArguments":
        return PackedArguments(self.places + other.places, self.values + other.values)


def pack_arguments(arguments: Iterable[np.generic | NDArray[Any]]) -> PackedArguments:
    """Arguments for launches that may be many."""
    values = tuple(np.asarray(argument) for argument in arguments)
    return PackedArguments(tuple(value.ctypes.data for value in values), values)


def enqueue(function: int, launch: LaunchConfig, arguments: PackedArguments, *, stream: int) -> int:
    """Launch a CUfunction on a CUstream; returns before it has run."""
    pointers = (ctypes.c_void_p * len(arguments.places))(*arguments.places)
    config, _alive = _config(launch, stream)
    return int(driver().cuLaunchKernelEx(ctypes.byref(config), ctypes.c_void_p(function), pointers, None))


def room(function: int, launch: LaunchConfig, *, sm_count: int) -> tuple[int, int]:
    """The status, and how many of the launch's blocks fit on the GPU at once."""
    count = ctypes.c_int(0)
    if math.prod(launch.cluster) > 1:
        config, _alive = _config(launch, 0)
        status = driver().cuOccupancyMaxActiveClusters(
            ctypes.byref(count), ctypes.c_void_p(function), ctypes.byref(config)
        )
        return int(status), count.value * math.prod(launch.cluster)
    status = driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(
        ctypes.byref(count),
        ctypes.c_void_p(function),
        math.prod(launch.block),
        ctypes.c_size_t(launch.smem_bytes),
    )
    return int(status), count.value * sm_count


def attributes(launch: LaunchConfig) -> list[tuple[int, tuple[int, ...]]]:
    """The launch attributes by number, each with its value."""
    wanted: list[tuple[int, tuple[int, ...]]] = []
    if math.prod(launch.cluster) > 1:
        wanted.append((_CLUSTER, launch.cluster))
    if launch.resident:
        wanted.append((_COOPERATIVE, (1,)))
    if launch.dependent:
        wanted.append((_STREAM_SERIALIZATION, (1,)))
    return wanted


@lru_cache(maxsize=256)
def _config(launch: LaunchConfig, stream: int) -> tuple[_Config, object]:
    """The driver's description of a launch, and what must outlive it."""
    wanted = attributes(launch)
    array = (_Attribute * len(wanted))()
    for slot, (number, value) in zip(array, wanted, strict=True):
        slot.id = number
        slot.value[: len(value)] = value
    config = _Config(
        grid=launch.grid,
        block=launch.block,
        smem_bytes=launch.smem_bytes,
        stream=stream,
        attributes=array,
        attribute_count=len(wanted),
    )
    return config, array


@cache
def driver() -> Any:
    """The CUDA driver's library. DeviceError where there is none."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise DeviceError(
            "the CUDA driver's library libcuda.so.1 cannot be loaded: install the NVIDIA driver."
        ) from None


_MAP = np.dtype([("words", np.uint64, (16,))])  # a CUtensorMap
_MAP_ALIGNMENT = 128  # bytes; less makes some drivers refuse
# CUtensorMapDataType, CUtensorMapSwizzle and CUtensorMapL2promotion of cuda.h.
_DTYPES = {"f16": 6, "bf16": 9, "float": 7}
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_PROMOTIONS = {0: 0, 64: 1, 128: 2, 256: 3}


def encode_map(
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
