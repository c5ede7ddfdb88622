"""Reads a user's .cu file and runs its launch in the emulator. Compiles nothing and judges nothing.

A TOML comment in the file says how `evoflash check` launches the kernel. The arrays that it asks for are
made, filled and read back here. What an array holds depends on its name alone, so that runs with different
schedules can be compared.
"""

import re
import tomllib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.emulator import launch as emulator
from evoflash.emulator.call import EmulatorRun, launch_once, map_tensor
from evoflash.errors import TemplateError, UsageError
from evoflash.kernels.expression import Expression
from evoflash.kernels.plain_cuda import entry_symbol, is_plain
from evoflash.launch import LaunchConfig, TensorMapSpec
from evoflash.numerics import encode
from evoflash.operation import Loop, Workload

DTYPES = ("f16", "bf16", "f32", "f64", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
FILLS = ("random", "zeros", "arange", "poison")

Three = tuple[int, int, int]


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


@dataclass(frozen=True, slots=True, eq=False)
class KernelFile:
    """A .cu and its launch. With a `loop` it follows evoflash's attention ABI, else it has `arguments`."""

    path: Path
    text: str
    entry: str
    grid: tuple[Expression, Expression, Expression]
    block: tuple[Expression, Expression, Expression]
    smem: Expression
    cluster: Three
    resident: bool  # its blocks wait for one another
    workspace: Expression
    arguments: tuple[Argument, ...]
    loop: Loop | None
    problem: str  # what an attention kernel is for, where the comment says so
    maps: tuple[TensorMapSpec, ...]  # an attention kernel's first arguments

    def launch(self, workload: Workload | None = None) -> LaunchConfig:
        """The launch, on a workload where it is attention. UsageError when an expression fails."""
        names = _names(workload) if workload else {}
        try:
            return LaunchConfig(
                entry_symbol(self.entry),
                grid=_three(self.grid, names),
                block=_three(self.block, names),
                smem_bytes=self.smem(names),
                workspace_bytes=self.workspace(names),
                cluster=self.cluster,
                resident=self.resident,
                maps=self.maps,
            )
        except TemplateError as error:
            raise UsageError(str(error)) from None


def _three(expressions: tuple[Expression, Expression, Expression], names: Mapping[str, Any]) -> Three:
    x, y, z = (expression(names) for expression in expressions)
    return x, y, z


def _names(workload: Workload) -> dict[str, Any]:
    return {**workload.names(), **workload.compile_key("").names()}


_HEADER = re.compile(r"/\*[ \t]*evoflash check[ \t]*\n(.*?)\*/", re.DOTALL)
_KEYS = ("entry", "grid", "block", "smem", "cluster", "resident", "arguments", "attention", "workspace")
_ARRAY_KEYS = ("name", "dtype", "shape", "fill", "out", "box", "swizzle")
_SCALAR_KEYS = ("name", "dtype", "value")
_MAP_KEYS = ("map", "box", "swizzle")
_LOOP_KEYS = ("rows", "keys", "stages", "splits")
_EXAMPLE = (
    '/* evoflash check <newline> entry = "my_kernel" <newline> grid = 1 <newline> block = 128 <newline> '
    'arguments = [{ name = "x", dtype = "f32", shape = [64], out = true }] <newline> */'
)


def read_kernel_file(path: Path, text: str) -> KernelFile:
    """The kernel in a file's text, its launch checked as far as it can be without running it."""
    match = _HEADER.search(text)
    if match is None:
        raise UsageError(
            f"{path} has no comment that says how to launch it: put at its top {_EXAMPLE}; "
            "see `evoflash check --help`."
        )
    header = _Header(path, match[1], text.count("\n", 0, match.start(1)))
    table = header.table()
    header.only(table, _KEYS, "the comment")
    entry = header.need(table, "entry", str)
    _check_text(path, text, entry)
    if ("arguments" in table) == ("attention" in table):
        raise header.wrong(
            "arguments", "give either `arguments` or `attention = {}` (evoflash's attention ABI)"
        )
    return KernelFile(
        path=path,
        text=text,
        entry=entry,
        grid=header.three(table, "grid"),
        block=header.three(table, "block"),
        smem=header.expression("smem", table.get("smem", 0)),
        cluster=header.numbers(table.get("cluster", 1), "cluster"),
        resident=header.flag(table, "resident"),
        workspace=header.expression("workspace", table.get("workspace", 0)),
        arguments=header.arguments(table),
        loop=header.loop(table),
        problem=header.problem(table),
        maps=header.maps(table),
    )


def _check_text(path: Path, text: str, entry: str) -> None:
    if is_plain(text):
        if re.search(r"\bef::|\bEF_EXPORT_KERNEL\b", text):
            raise UsageError(f'{path} does not #include "ef.h": write the line above the kernel.')
        name = re.escape(re.split(r"[<(]", entry)[0].rpartition("::")[2].strip())
        if not re.search(rf"__global__[^;]*?\b{name}\s*\(", text):
            raise UsageError(
                f"{path} has no __global__ function '{entry}', which its comment names as entry."
            )
    elif not re.search(rf"\bEF_EXPORT_KERNEL\(\s*{re.escape(entry)}\s*\)", text):
        raise UsageError(f"{path} has no EF_EXPORT_KERNEL({entry}): write it below the kernel.")


@dataclass(frozen=True, slots=True)
class _Header:
    """The comment's TOML; `before` is how many lines of the file precede it."""

    path: Path
    toml: str
    before: int

    def table(self) -> dict[str, Any]:
        try:
            return tomllib.loads(self.toml)
        except tomllib.TOMLDecodeError as error:
            place = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
            line = self.before + int(place[1]) if place else self.before + 1
            what = str(error).partition(" (at ")[0]
            raise UsageError(f"{self.path}:{line}: not TOML: {what}; see `evoflash check --help`.") from None

    def wrong(self, key: str, what: str) -> UsageError:
        return UsageError(f"{self.path}:{self._line_of(key)}: {what}; see `evoflash check --help`.")

    def _line_of(self, key: str) -> int:
        match = re.search(rf"(?<![\w\"]){re.escape(key)}(?![\w\"])\s*[=\]]", self.toml)
        return self.before + 1 + (self.toml.count("\n", 0, match.start()) if match else 0)

    def only(self, table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
        for key in table:
            if key not in known:
                raise self.wrong(key, f"'{key}' is not a key of {where}: use {', '.join(known)}")

    def need(self, table: Mapping[str, Any], key: str, kind: type) -> Any:
        if key not in table:
            raise self.wrong(key, f"'{key}' is missing")
        if type(table[key]) is not kind:
            raise self.wrong(key, f"{key} = {table[key]!r} must be a {kind.__name__}")
        return table[key]

    def flag(self, table: Mapping[str, Any], key: str) -> bool:
        value = table.get(key, False)
        if type(value) is not bool:
            raise self.wrong(key, f"{key} = {value!r} must be true or false")
        return value

    def expression(self, key: str, value: object) -> Expression:
        try:
            return Expression(value, f"{self.path}:{self._line_of(key)}: {key}", (int,))
        except TemplateError as error:
            raise UsageError(str(error)) from None

    def three(self, table: Mapping[str, Any], key: str) -> tuple[Expression, Expression, Expression]:
        if key not in table:
            raise self.wrong(key, f"'{key}' is missing: a number, or [x, y, z]")
        value = table[key] if isinstance(table[key], list) else [table[key]]
        if not 1 <= len(value) <= 3:
            raise self.wrong(key, f"{key} = {table[key]!r} must be a number, or [x, y, z]")
        x, y, z = (self.expression(key, side) for side in [*value, 1, 1][:3])
        return x, y, z

    def numbers(self, value: object, key: str) -> Three:
        sides = value if isinstance(value, list) else [value]
        if not 1 <= len(sides) <= 3 or any(type(side) is not int or side < 1 for side in sides):
            raise self.wrong(key, f"{key} = {value!r} must be a number, or [x, y, z]")
        x, y, z = [*sides, 1, 1][:3]
        return x, y, z

    def tables(self, table: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            raise self.wrong(key, f"{key} must be a list of tables, one for each kernel argument in order")
        return value

    def loop(self, table: Mapping[str, Any]) -> Loop | None:
        if "attention" not in table:
            return None
        given = dict(self.need(table, "attention", dict))
        self.only(given, (*_LOOP_KEYS, "problem", "maps"), "attention")
        given.pop("problem", None)
        given.pop("maps", None)
        for key, value in given.items():
            if type(value) is not int or value < 1:
                raise self.wrong(key, f"{key} = {value!r} must be a whole number from 1 up")
        # most_ctas: its grid may have blocks that take one piece of work after another; nobody says so.
        return Loop(**{"rows": 64, "keys": 64, "stages": 2, "splits": 1, "most_ctas": 1, **given})

    def problem(self, table: Mapping[str, Any]) -> str:
        given = table.get("attention", {})
        return str(self.need(given, "problem", str)) if "problem" in given else ""

    def arguments(self, table: Mapping[str, Any]) -> tuple[Argument, ...]:
        arguments = tuple(self.argument(entry) for entry in self.tables(table, "arguments"))
        shapes = {argument.name: argument.shape for argument in arguments}
        for argument in arguments:
            shape = shapes.get(argument.map.of) if argument.map else ()
            if shape is None or (argument.map and len(shape) != len(argument.map.box)):
                of = argument.map.of if argument.map else ""
                raise self.wrong(
                    "map", f"map = '{of}' must name an array, with a side of box for each of its shape's"
                )
        return arguments

    def maps(self, table: Mapping[str, Any]) -> tuple[TensorMapSpec, ...]:
        maps = [self.map(given) for given in self.tables(table.get("attention", {}), "maps")]
        for tensor_map in maps:
            if tensor_map.of not in ("Q", "K", "V", "O") or len(tensor_map.box) != 4:
                raise self.wrong(
                    "maps", "maps are of Q, K, V or O, with a box of [batch, heads, rows, columns]"
                )
        return tuple(maps)

    def map(self, given: Mapping[str, Any], of: str = "") -> TensorMapSpec:
        if not of:
            self.only(given, _MAP_KEYS, "a map")
        name = of or str(self.need(given, "map", str))
        if "box" not in given:
            raise self.wrong("box", f"the map of '{name}' needs box = [..], in the order of its shape")
        swizzle = given.get("swizzle", 0)
        if swizzle not in (0, 32, 64, 128):
            raise self.wrong("swizzle", f"swizzle = {swizzle!r} of '{name}' must be 0, 32, 64 or 128")
        return TensorMapSpec(name, self._sides(given, "box", name), swizzle)

    def argument(self, given: Mapping[str, Any]) -> Argument:
        if "map" in given:
            of = self.map(given)
            return Argument(f"map of {of.of}", "", map=of)
        is_array = "value" not in given
        self.only(given, _ARRAY_KEYS if is_array else _SCALAR_KEYS, "an array" if is_array else "a scalar")
        name, dtype = self.need(given, "name", str), self.need(given, "dtype", str)
        if dtype not in DTYPES:
            raise self.wrong("dtype", f"dtype '{dtype}' of '{name}' is unknown: use {', '.join(DTYPES)}")
        if is_array:
            return self._array(given, name, dtype)
        value = given["value"]
        if type(value) is not int and not (type(value) is float and dtype in DTYPES[:4]):
            raise self.wrong("value", f"value = {value!r} of '{name}' does not fit {dtype}")
        return Argument(name, dtype, value=value)

    def _array(self, given: Mapping[str, Any], name: str, dtype: str) -> Argument:
        if "shape" not in given:
            raise self.wrong("shape", f"'{name}' needs shape = [..] (an array) or value = .. (a scalar)")
        shape = self._sides(given, "shape", name)
        of = self.map(given, name) if "box" in given else None
        if of and len(of.box) != len(shape):
            raise self.wrong(
                "box", f"box = {list(of.box)} of '{name}' must have a side for each of its shape's"
            )
        is_output = self.flag(given, "out")
        fill = given.get("fill", "poison" if is_output else "random")
        if fill not in FILLS and type(fill) not in (int, float):
            raise self.wrong("fill", f"fill = {fill!r} of '{name}': use {', '.join(FILLS)} or a number")
        return Argument(name, dtype, shape, fill, is_output, of)

    def _sides(self, given: Mapping[str, Any], key: str, name: str) -> tuple[int, ...]:
        sides = given[key] if isinstance(given[key], list) else [given[key]]
        if not sides or any(type(side) is not int or side < 1 for side in sides):
            raise self.wrong(key, f"{key} = {given[key]!r} of '{name}' must be numbers from 1 up")
        return tuple(sides)


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


def launch_own(
    library: Path, launch: LaunchConfig, arguments: tuple[Argument, ...], run: EmulatorRun
) -> tuple[emulator.Emulation, tuple[OutputArray, ...]]:
    """What the emulator says of the launch, and the arrays that it may write, as it left them."""
    with emulator.Memory() as memory:
        arrays = {
            argument.name: (argument, _array(memory, argument, argument.shape))
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


def _array(memory: emulator.Memory, argument: Argument, shape: tuple[int, ...]) -> Array:
    is_poison = argument.fill == "poison"
    array = memory.array(
        argument.name, shape, _NUMPY[argument.dtype], writable=argument.is_output, unset=is_poison
    )
    if is_poison:
        array.view(np.uint8)[...] = 0xFF
    elif argument.fill != "zeros":
        array[...] = _to_dtype(_content(argument, shape), argument.dtype)
    return array


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
