"""One launch of a kernel with arguments of its own in the emulator: arrays made, filled, and read back.

What an array holds depends on its name alone, so that runs with different schedules can be compared.
"""

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.commands.check.kernel_file import Argument
from evoflash.emulator import launch as emulator
from evoflash.emulator.call import Run, launch_once, mapped
from evoflash.evaluation import Launch
from evoflash.validation.bits import encode

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
class Written:
    """An output array after a run."""

    name: str
    dtype: str
    values: Array
    poisoned: int  # how many elements still hold the poison that they were filled with


def launch_own(
    library: Path, launch: Launch, arguments: tuple[Argument, ...], run: Run
) -> tuple[emulator.Emulation, tuple[Written, ...]]:
    """What the emulator says of the launch, and the arrays that it may write, as it left them."""
    with emulator.Memory() as memory:
        arrays = {
            argument.name: (argument, _array(memory, argument, argument.shape))
            for argument in arguments
            if argument.shape is not None
        }
        given = [_passed(argument, arrays) for argument in arguments]
        emulation = launch_once(library, launch, given, run)
        return emulation, tuple(
            _written(argument, array) for argument, array in arrays.values() if argument.is_output
        )


def _scalar(argument: Argument) -> np.generic:
    scalar: np.generic = _stored(np.array([argument.value]), argument.dtype)[0]
    return scalar


def _stored(values: Array, dtype: str) -> Array:
    return encode(values, "bf16") if dtype == "bf16" else values.astype(_NUMPY[dtype])


def _array(memory: emulator.Memory, argument: Argument, shape: tuple[int, ...]) -> Array:
    is_poison = argument.fill == "poison"
    array = memory.array(
        argument.name, shape, _NUMPY[argument.dtype], writable=argument.is_output, unset=is_poison
    )
    if is_poison:
        array.view(np.uint8)[...] = 0xFF
    elif argument.fill != "zeros":
        array[...] = _stored(_content(argument, shape), argument.dtype)
    return array


def _content(argument: Argument, shape: tuple[int, ...]) -> Array:
    if argument.fill == "arange":
        return np.arange(np.prod(shape)).reshape(shape)
    if argument.fill != "random":
        return np.full(shape, argument.fill)
    rng = np.random.default_rng(zlib.crc32(argument.name.encode()))
    is_float = argument.dtype in _FLOATS
    return rng.standard_normal(shape) if is_float else rng.integers(0, 100, shape)


def _passed(argument: Argument, arrays: dict[str, tuple[Argument, Array]]) -> np.generic:
    """What the kernel gets: a map, an address or a number."""
    if argument.map is not None:
        return mapped(argument.map, arrays[argument.map.of][1])
    if argument.shape is None:
        return _scalar(argument)
    return np.uint64(arrays[argument.name][1].ctypes.data)


def _written(argument: Argument, array: Array) -> Written:
    raw = np.ascontiguousarray(array).view(np.uint8).reshape(array.size, -1)
    poisoned = int((raw == 0xFF).all(axis=1).sum()) if argument.fill == "poison" else 0
    return Written(argument.name, argument.dtype, array.copy(), poisoned)


def difference(a: Written, b: Written) -> str:
    """Where two runs' versions of an output first differ; "" where they are bitwise equal."""
    wide = {2: np.uint16, 4: np.uint32, 8: np.uint64}.get(a.values.itemsize, np.uint8)
    unequal = np.flatnonzero(a.values.view(wide) != b.values.view(wide))
    if not len(unequal):
        return ""
    at = int(unequal[0])
    place = ",".join(map(str, np.unravel_index(at, a.values.shape)))
    return f"{len(unequal)} of {a.values.size} elements of '{a.name}' differ, the first at [{place}]: " + (
        f"{_shown(a, at)} and {_shown(b, at)}"
    )


def _shown(written: Written, at: int) -> str:
    value = written.values.reshape(-1)[at]
    if written.dtype == "bf16":
        value = (np.uint32(value) << np.uint32(16)).view(np.float32)
    return f"{value:.6g}"
