"""The calls of the CUDA driver that launching takes, by ctypes. Knows no kernel and keeps no state of one.

Numbers and layouts are those of cuda.h, version 12.0 and later.
"""

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

LIBRARY = "libcuda.so.1"
TENSOR_MAP_BYTES, TENSOR_MAP_ALIGNMENT = 128, 128  # a CUtensorMap; less alignment makes some drivers refuse
# CUfunction_attribute, CUlaunchAttributeID and CUdevice_attribute.
DYNAMIC_SHARED, CARVEOUT, LARGE_CLUSTERS = 8, 9, 14
COOPERATIVE, CLUSTER, STREAM_SERIALIZATION = 2, 4, 6
SM_COUNT, MAJOR, MINOR = 16, 75, 76
DEVICE_ORDINAL = 9  # CUpointer_attribute
# CUtensorMapDataType, CUtensorMapSwizzle and CUtensorMapL2promotion.
ELEMENT_BYTES = {"e4m3": 1, "fp16": 2, "bf16": 2, "fp32": 4}
DATA_TYPES = {"e4m3": 0, "fp16": 6, "bf16": 9, "fp32": 7}
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
PROMOTIONS = {0: 0, 64: 1, 128: 2, 256: 3}
_RELAXED = 2  # CUstreamCaptureMode: what loads a kernel may be called while another stream is captured


class LaunchError(RuntimeError):
    """The driver refused a call; the message names the call and the driver's error."""


class Attribute(ctypes.Structure):
    """CUlaunchAttribute: the value is a union of 64 bytes, whose members here are unsigned numbers."""

    _fields_ = (("id", c_uint32), ("pad", c_uint32), ("value", c_uint32 * 16))


class Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", c_uint32 * 3),
        ("block", c_uint32 * 3),
        ("shared_bytes", c_uint32),
        ("stream", c_void_p),
        ("attributes", POINTER(Attribute)),
        ("attribute_count", c_uint32),
    )


_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint32,),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuPointerGetAttribute": (POINTER(c_int), c_int, c_uint64),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxPopCurrent_v2": (POINTER(c_void_p),),
    "cuThreadExchangeStreamCaptureMode": (POINTER(c_int),),
    "cuModuleLoadData": (POINTER(c_void_p), c_char_p),
    "cuModuleGetGlobal_v2": (POINTER(c_uint64), POINTER(c_size_t), c_void_p, c_char_p),
    "cuModuleGetFunction": (POINTER(c_void_p), c_void_p, c_char_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (POINTER(c_int), c_void_p, c_int, c_size_t),
    "cuOccupancyMaxActiveClusters": (POINTER(c_int), c_void_p, POINTER(Config)),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    # Called for every launch: addresses as plain numbers, which cost the least.
    "cuCtxGetCurrent": (c_void_p,),
    "cuLaunchKernelEx": (c_void_p, c_void_p, c_void_p, c_void_p),
    "cuTensorMapEncodeTiled": (
        *(c_void_p, c_int, c_uint32, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p),
        *(c_int, c_int, c_int, c_int),
    ),
}


class Driver:
    """The driver's library, loaded from `path`. LaunchError where there is none, or one before CUDA 12."""

    def __init__(self, path: str = LIBRARY) -> None:
        try:
            library = ctypes.CDLL(path)
        except OSError:
            raise LaunchError(
                f"the CUDA driver's library {path} cannot be loaded: install the NVIDIA driver."
            ) from None
        try:
            self._functions = {name: _bind(library, name, types) for name, types in _ARGUMENTS.items()}
        except AttributeError as error:
            raise LaunchError(
                f"the NVIDIA driver is older than CUDA 12 ({error}): install a newer one."
            ) from None
        self.launch = self._functions["cuLaunchKernelEx"]
        # It reads a variable of the thread, for which it is not worth to let other threads run.
        self.current = _bind(ctypes.PyDLL(path), "cuCtxGetCurrent", _ARGUMENTS["cuCtxGetCurrent"])
        self.encode = self._functions["cuTensorMapEncodeTiled"]
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: Any) -> None:
        """LaunchError with the driver's own name of an error."""
        if status := self._functions[name](*arguments):
            raise LaunchError(f"{name}: {self.error(status)}")

    def status(self, name: str, *arguments: Any) -> int:
        """The driver's status, 0 for success."""
        return int(self._functions[name](*arguments))

    def number(self, name: str, *arguments: Any) -> int:
        """What the driver writes to a call's first argument, an int."""
        value = c_int(0)
        self.call(name, value, *arguments)
        return value.value

    def handle(self, name: str, *arguments: Any) -> int:
        """What the driver writes to a call's first argument, a handle."""
        value = c_void_p(None)
        self.call(name, value, *arguments)
        return value.value or 0

    def device_name(self, device: int) -> str:
        """As the driver reports it, "NVIDIA H200"."""
        room = ctypes.create_string_buffer(128)
        self.call("cuDeviceGetName", room, len(room), device)
        return room.value.decode(errors="replace")

    def error(self, status: int) -> str:
        """An error's name, "CUDA_ERROR_INVALID_VALUE"."""
        name = c_char_p()
        if self._functions["cuGetErrorName"](status, name) or not name.value:
            return f"error {status}"
        return name.value.decode()


class Current:
    """`with Current(driver, context)`: it is the thread's, and loading is allowed during a capture."""

    def __init__(self, driver: Driver, context: int) -> None:
        self._driver, self._context, self._mode = driver, context, c_int(_RELAXED)

    def __enter__(self) -> None:
        self._driver.call("cuCtxPushCurrent_v2", self._context)
        self._driver.call("cuThreadExchangeStreamCaptureMode", self._mode)

    def __exit__(self, *_: object) -> None:
        self._driver.call("cuThreadExchangeStreamCaptureMode", self._mode)
        self._driver.handle("cuCtxPopCurrent_v2")


def _bind(library: ctypes.CDLL, name: str, types: tuple[Any, ...]) -> Any:
    function = library[name]  # a function object of its own, whose types are nobody else's
    function.argtypes, function.restype = types, c_int
    return function


def launch_attributes(
    cluster: Sequence[int], *, resident: bool, dependent: bool
) -> list[tuple[int, tuple[int, ...]]]:
    """The attributes by which a launch differs from a plain one, by number, each with its value."""
    wanted: list[tuple[int, tuple[int, ...]]] = []
    if any(side > 1 for side in cluster):
        wanted.append((CLUSTER, tuple(cluster)))
    if resident:
        wanted.append((COOPERATIVE, (1,)))
    if dependent:
        wanted.append((STREAM_SERIALIZATION, (1,)))
    return wanted


def config_of(
    grid: Sequence[int],
    block: Sequence[int],
    shared_bytes: int,
    cluster: Sequence[int],
    *,
    resident: bool,
    dependent: bool,
) -> Config:
    """The driver's description of a launch, for no stream yet. What it points at is kept alive by it."""
    wanted = launch_attributes(cluster, resident=resident, dependent=dependent)
    array = (Attribute * len(wanted))()
    for slot, (number, value) in zip(array, wanted, strict=True):
        slot.id = number
        slot.value[: len(value)] = value
    return Config(
        grid=tuple(grid),
        block=tuple(block),
        shared_bytes=shared_bytes,
        attributes=array,
        attribute_count=len(wanted),
    )


class Encoder:
    """Encodes tensor maps of one geometry for any address."""

    def __init__(
        self,
        driver: Driver,
        data_type: str,
        dims: Any,
        strides: Any,
        box: Any,
        *,
        swizzle: int,
        promotion: int,
        fill_nan: bool = False,
    ) -> None:
        rank = len(dims)
        self._encode, self._error = driver.encode, driver.error
        self._described = (
            f"{data_type}, dimensions {tuple(dims)}, strides {tuple(strides)} bytes, box {tuple(box)}"
        )
        self._arrays = (
            (c_uint64 * rank)(*dims),
            (c_uint64 * max(rank - 1, 1))(*strides),
            (c_uint32 * rank)(*box),
            (c_uint32 * rank)(*[1] * rank),  # every element of the box
        )
        self._head = DATA_TYPES[data_type], rank
        self._shape = tuple(ctypes.addressof(array) for array in self._arrays)
        # No interleave; elements outside of the tensor are zeros, or NaN.
        self._tail = 0, SWIZZLES[swizzle], PROMOTIONS[promotion], int(fill_nan)

    def __call__(self, address: int) -> tuple[int, Any]:
        """Where the map lies on the host, and what must be kept alive for it."""
        room = ctypes.create_string_buffer(TENSOR_MAP_BYTES + TENSOR_MAP_ALIGNMENT)
        place = -(-ctypes.addressof(room) // TENSOR_MAP_ALIGNMENT) * TENSOR_MAP_ALIGNMENT
        if status := self._encode(place, *self._head, address, *self._shape, *self._tail):
            raise LaunchError(
                f"cuTensorMapEncodeTiled: {self._error(status)} for {self._described} at {address:#x}"
            )
        return place, room
