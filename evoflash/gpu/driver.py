"""Tensor maps and special launches, for which CuPy has no call, by evoflash.runtime's binding of the driver.

Special are clusters, resident and dependent launches. The emulator's maps are made in emulator/tensor_map.py.
Compiles nothing.
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
from evoflash.runtime.driver import (
    LARGE_CLUSTERS,
    TENSOR_MAP_BYTES,
    Config,
    Driver,
    Encoder,
    LaunchError,
    config_of,
)

_MAP = np.dtype([("words", np.uint64, (TENSOR_MAP_BYTES // 8,))])  # a CUtensorMap


@cache
def driver() -> Driver:
    """The CUDA driver. DeviceError where there is none, or one that is too old."""
    try:
        return Driver()
    except LaunchError as error:
        raise DeviceError(str(error)) from None


def is_plain(launch: LaunchConfig) -> bool:
    """Whether CuPy can launch it."""
    return math.prod(launch.cluster) == 1 and not launch.resident and not launch.dependent


def allow_cluster(function: int, launch: LaunchConfig) -> int:
    """Lets the function run in clusters of more blocks than every GPU has room for."""
    if math.prod(launch.cluster) <= PORTABLE_CLUSTER:
        return 0
    return driver().status("cuFuncSetAttribute", function, LARGE_CLUSTERS, 1)


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
    return int(driver().launch(ctypes.byref(_config(launch, stream)), function, pointers, None))


def room(function: int, launch: LaunchConfig, *, sm_count: int) -> tuple[int, int]:
    """The status, and how many of the launch's blocks fit on the GPU at once."""
    count, blocks = ctypes.c_int(0), math.prod(launch.cluster)
    if blocks > 1:
        status = driver().status("cuOccupancyMaxActiveClusters", count, function, _config(launch, 0))
        return status, count.value * blocks
    what = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
    status = driver().status(what, count, function, math.prod(launch.block), launch.smem_bytes)
    return status, count.value * sm_count


@lru_cache(maxsize=256)
def _config(launch: LaunchConfig, stream: int) -> Config:
    config = config_of(
        launch.grid,
        launch.block,
        launch.smem_bytes,
        launch.cluster,
        resident=launch.resident,
        dependent=launch.dependent,
    )
    config.stream = stream
    return config


def encode_map(
    address: int,
    dims: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    *,
    dtype: str = "fp16",
    swizzle: int = 0,
    fill_nan: bool = False,
    l2_promotion: int = 256,
) -> NDArray[np.void]:
    """A kernel argument for a parameter `EF_TMAP(name)`: one element of 128 bytes, passed by value.

    See emulator/tensor_map.py for the description; `dtype` is "fp16", "bf16" or "fp32", `l2_promotion` the
    bytes that L2 fetches together (0, 64, 128 or 256). UsageError where the driver refuses it.
    """
    encode = Encoder(
        *(driver(), dtype, dims, strides, box),
        swizzle=swizzle,
        promotion=l2_promotion,
        fill_nan=fill_nan,
    )
    try:
        place, _alive = encode(address)
    except LaunchError as error:
        raise UsageError(f"the driver refuses a tensor map: {error}.") from None
    return np.frombuffer(bytearray(ctypes.string_at(place, TENSOR_MAP_BYTES)), _MAP)
