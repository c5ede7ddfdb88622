"""The cases that a check runs: workloads whose result is known, and launches with arguments of their own.

The arrays that the latter ask for are made, filled and read back here. What an array holds depends on its
name alone, so that runs with different schedules can be compared. Judges nothing, and loads little: each
process of a sandbox begins with it.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.emulator import launch as emulator
from evoflash.emulator.call import EmulatorRun, launch_once, map_tensor, run_calls
from evoflash.launch import LaunchConfig, TensorMapSpec
from evoflash.numerics import decode, encode
from evoflash.operation import operation_of
from evoflash.workload import Output, TestInput, Workload

# What an operation calls the type of a tensor, and a kernel's file that of an array, where they differ.
FILE_TYPES = {"fp16": "f16", "fp32": "f32", "int32": "i32", "e4m3": "u8"}
_TENSOR_TYPES = {written: dtype for dtype, written in FILE_TYPES.items()}


@dataclass(frozen=True, slots=True)
class Argument:
    """One kernel argument: an array (it has a `shape`) or its map, a map of another one, or a scalar."""

    name: str
    dtype: str
    shape: tuple[int, ...] | None = None
    fill: str | float = "random"  # a name of FILLS, or the number in every element
    is_output: bool = False
    map: TensorMapSpec | None = None  # what the kernel gets instead of the array's address
    value: float = 0  # an int for integer types


@dataclass(frozen=True, slots=True)
class WorkloadCase:
    """A workload whose result is known."""

    workload: Workload
    launches: tuple[LaunchConfig, ...]
    sms: int = 0  # of a small GPU, where persistent blocks take several tiles each; 0: the GPU that is meant
    is_deterministic: bool = False  # two calls on one input give the same to the bit, by promise
    # the kernel's own, those of the tensors by name; else the operation's
    arguments: tuple[Argument, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnCase:
    """One launch with arguments of its own: no result to compare with."""

    launch: LaunchConfig
    arguments: tuple[Argument, ...]

    @property
    def launches(self) -> tuple[LaunchConfig, ...]:
        """As of a workload's case."""
        return (self.launch,)


Case = WorkloadCase | OwnCase


Array = np.ndarray[Any, Any]

_NUMPY: dict[str, type[np.generic]] = {
    "f16": np.float16,
    "bf16": np.uint16,  # NumPy has no such type: bit patterns
    "f32": np.float32,
    "f64": np.float64,
    "i8": np.int8,
    "u8": np.uint8,
    "i16": np.int16,
    "u16": np.uint16,
    "i32": np.int32,
    "u32": np.uint32,
    "i64": np.int64,
    "u64": np.uint64,
}
_FLOATS = ("f16", "bf16", "f32", "f64")


@dataclass(frozen=True, slots=True, eq=False)
class OutputArray:
    """An output array after a run."""

    name: str
    dtype: str
    values: Array
    poisoned: int  # how many elements still hold the poison that they were filled with
    is_changed: bool = True  # whether any element is another one than before the launch


def call_on(
    library: Path, case: WorkloadCase, calls: Sequence[TestInput], run: EmulatorRun
) -> list[tuple[tuple[emulator.Emulation, ...], Output]]:
    """What the emulator says of the launches of each call, and what they wrote, of a kernel with its
    operation's arguments or with its own.
    """
    if not case.arguments:
        return run_calls(library, case.launches, case.workload, calls, run)
    return [_call_own(library, case, inputs, run) for inputs in calls]


def _call_own(
    library: Path, case: WorkloadCase, inputs: TestInput, run: EmulatorRun
) -> tuple[tuple[emulator.Emulation, ...], Output]:
    """Tensors have the type that the kernel takes; what it writes in a wider one is rounded."""
    specs = {spec.name: spec for spec in operation_of(case.workload).tensors(case.workload)}
    given = {name: _numbers(values, specs[name].dtype) for name, values in inputs.tensors.items()}
    (launch,) = case.launches
    emulation, written = launch_own(library, launch, case.arguments, run, given)
    tensors = {}
    for each in written:
        if (spec := specs.get(each.name)) is not None:
            numbers = _numbers(each.values, _TENSOR_TYPES.get(each.dtype, each.dtype))
            tensors[each.name] = numbers if spec.dtype == "fp32" else encode(numbers, spec.dtype)
    return (emulation,), Output(tensors)


def _numbers(values: Array, dtype: str) -> Array:
    is_pattern = dtype == "bf16" or (dtype == "fp16" and values.dtype == np.uint16)
    return decode(values, dtype) if is_pattern else values


def launch_own(
    library: Path,
    launch: LaunchConfig,
    arguments: tuple[Argument, ...],
    run: EmulatorRun,
    contents: Mapping[str, Array] | None = None,
) -> tuple[emulator.Emulation, tuple[OutputArray, ...]]:
    """What the emulator says of the launch, and the arrays that it may write, as it left them. `contents` are
    those of arrays that are not to be filled as their arguments say.
    """
    with emulator.Memory() as memory:
        arrays = {
            argument.name: (
                argument,
                _array(memory, argument, argument.shape, (contents or {}).get(argument.name)),
            )
            for argument in arguments
            if argument.shape is not None
        }
        given = [_argument_value(argument, arrays) for argument in arguments]
        outputs = [each for each in arrays.values() if each[0].is_output]
        before = [array.tobytes() for _, array in outputs]
        emulation = launch_once(library, launch, given, run)
        return emulation, tuple(
            _read_output(*each, before=held) for each, held in zip(outputs, before, strict=True)
        )


def _scalar(argument: Argument) -> np.generic:
    scalar: np.generic = _to_dtype(np.array([argument.value]), argument.dtype)[0]
    return scalar


def _to_dtype(values: Array, dtype: str) -> Array:
    return encode(values, "bf16") if dtype == "bf16" else values.astype(_NUMPY[dtype])


def _array(
    memory: emulator.Memory, argument: Argument, shape: tuple[int, ...], content: Array | None
) -> Array:
    is_poison = argument.fill == "poison" and content is None
    array = memory.array(
        argument.name, shape, _NUMPY[argument.dtype], writable=argument.is_output, unset=is_poison
    )
    if is_poison:
        array.view(np.uint8)[...] = 0xFF
    elif content is not None or argument.fill != "zeros":
        values = _content(argument, shape) if content is None else content
        array[...] = _to_dtype(values, argument.dtype)
    return array


def contents_of(argument: Argument) -> Array:
    """The numbers of an array as its argument says, or the one of a scalar."""
    if argument.shape is None:
        return np.array([argument.value])
    return _content(replace(argument, fill=0) if argument.fill == "zeros" else argument, argument.shape)


def _content(argument: Argument, shape: tuple[int, ...]) -> Array:
    if argument.fill == "arange":
        return np.arange(np.prod(shape)).reshape(shape)
    if argument.fill != "random":
        return np.full(shape, argument.fill)
    rng = np.random.default_rng(zlib.crc32(argument.name.encode()))
    is_float = argument.dtype in _FLOATS
    return rng.standard_normal(shape) if is_float else rng.integers(0, 100, shape)


def _argument_value(argument: Argument, arrays: dict[str, tuple[Argument, Array]]) -> np.generic:
    """What the kernel gets: a map, an address or a number."""
    if argument.map is not None:
        return map_tensor(argument.map, arrays[argument.map.of][1])
    if argument.shape is None:
        return _scalar(argument)
    return np.uint64(arrays[argument.name][1].ctypes.data)


def _read_output(argument: Argument, array: Array, *, before: bytes) -> OutputArray:
    raw = np.ascontiguousarray(array).view(np.uint8).reshape(array.size, -1)
    poisoned = int((raw == 0xFF).all(axis=1).sum()) if argument.fill == "poison" else 0
    is_changed = array.tobytes() != before
    return OutputArray(argument.name, argument.dtype, array.copy(), poisoned, is_changed)


def difference(a: OutputArray, b: OutputArray) -> str:
    """Where two runs' versions of an output first differ; "" where they are bitwise equal."""
    wide = {2: np.uint16, 4: np.uint32, 8: np.uint64}.get(a.values.itemsize, np.uint8)
    unequal = np.flatnonzero(a.values.view(wide) != b.values.view(wide))
    if not len(unequal):
        return ""
    at = int(unequal[0])
    place = ",".join(map(str, np.unravel_index(at, a.values.shape)))
    return f"{len(unequal)} of {a.values.size} elements of '{a.name}' differ, the first at [{place}]: " + (
        f"{_element_text(a, at)} and {_element_text(b, at)}"
    )


def no_numbers(written: OutputArray) -> int:
    """How many elements of an output are NaN; none of one that holds whole numbers."""
    values = written.values
    if written.dtype == "bf16":
        values = (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return int(np.isnan(values).sum()) if np.issubdtype(values.dtype, np.floating) else 0


def _element_text(written: OutputArray, at: int) -> str:
    value = written.values.reshape(-1)[at]
    if written.dtype == "bf16":
        value = (np.uint32(value) << np.uint32(16)).view(np.float32)
    return f"{value:.6g}"
