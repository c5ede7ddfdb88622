"""Reads the comment of a user's .cu file that says how its kernel is launched. Compiles and runs nothing."""

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evoflash.app.check.cases import FILE_TYPES, Argument, contents_of
from evoflash.errors import TemplateError, UsageError
from evoflash.kernels.expression import Expression
from evoflash.kernels.plain_cuda import entry_symbol, is_plain
from evoflash.launch import LaunchConfig, TensorMapSpec
from evoflash.operation import Loop, operation_of
from evoflash.workload import Workload

DTYPES = ("f16", "bf16", "f32", "f64", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
FILLS = ("random", "zeros", "arange", "poison")

Three = tuple[int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class WrittenLaunch:
    """One launch as the comment says it, for sizes that are not known yet."""

    entry: str
    grid: tuple[Expression, Expression, Expression]
    block: tuple[Expression, Expression, Expression]
    smem: Expression
    cluster: Three
    resident: bool  # its blocks wait for one another


@dataclass(frozen=True, slots=True, eq=False)
class KernelFile:
    """A .cu and its launches. With a `loop` it follows the ABI of an operation, else it has `arguments`."""

    path: Path
    text: str  # with the contents of constants that the host would copy there
    written: tuple[WrittenLaunch, ...]  # one after the other, with the same arguments
    workspace: Expression
    arguments: tuple[Argument, ...]  # where it follows no operation
    arguments_on: Callable[[Workload], tuple[Argument, ...]] | None  # of its own, with an operation's tensors
    loop: Loop | None
    operation: str  # whose ABI it follows; empty with arguments of its own
    problem: str  # what it is for, where the comment says so
    maps: tuple[TensorMapSpec, ...]  # an attention kernel's first arguments

    @property
    def entries(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.entry for each in self.written))

    def launches(self, workload: Workload | None = None) -> tuple[LaunchConfig, ...]:
        """The launches, on a workload where there is one. UsageError when an expression fails."""
        names = _names(workload) if workload else {}
        try:
            return tuple(
                LaunchConfig(
                    entry_symbol(each.entry),
                    grid=_three(each.grid, names),
                    block=_three(each.block, names),
                    smem_bytes=each.smem(names),
                    workspace_bytes=self.workspace(names),
                    cluster=each.cluster,
                    resident=each.resident,
                    maps=self.maps,
                )
                for each in self.written
            )
        except TemplateError as error:
            raise UsageError(str(error)) from None


def _three(expressions: tuple[Expression, Expression, Expression], names: Mapping[str, Any]) -> Three:
    x, y, z = (expression(names) for expression in expressions)
    return x, y, z


def _names(workload: Workload) -> dict[str, Any]:
    return {**workload.names(), **workload.compile_key("").names()}


_HEADER = re.compile(r"/\*[ \t]*evoflash check[ \t]*\n(.*?)\*/", re.DOTALL)
_OPERATIONS = ("attention", "linear", "paged_attention")
_LAUNCH_KEYS = ("entry", "grid", "block", "smem", "cluster", "resident")
_KEYS = (*_LAUNCH_KEYS, "then", "arguments", "constants", *_OPERATIONS, "workspace")
_ARRAY_KEYS = ("name", "dtype", "shape", "fill", "out", "box", "swizzle")
_SCALAR_KEYS = ("name", "dtype", "value")
_MAP_KEYS = ("map", "box", "swizzle")
_LOOP_KEYS = ("rows", "keys", "stages", "splits")
_COSTS = ((r"wgmma", 1), (r"\bwmma(::|_)", 10), (r"\bmma", 3))  # words of a text that multiplies so
_SCALAR_COST = 45  # of multiplications without tensor cores
_EXAMPLE = (
    '/* evoflash check <newline> entry = "my_kernel" <newline> grid = 1 <newline> block = 128 <newline> '
    'arguments = [{ name = "x", dtype = "f32", shape = [64], out = true }] <newline> */'
)


def read_kernel_file(path: Path, text: str, header_file: Path | None = None) -> KernelFile:
    """The kernel in a file's text, its launch checked as far as it can be without running it. `header_file`
    says what the comment would, in its place.
    """
    match = _HEADER.search(text)
    if header_file is not None:
        header = _Header(header_file, _toml_of(header_file), 0)
    elif match is not None:
        header = _Header(path, match[1], text.count("\n", 0, match.start(1)))
    else:
        raise UsageError(
            f"{path} has no comment that says how to launch it: put at its top {_EXAMPLE}, "
            "or its lines into a file for --header; see `evoflash check --help`."
        )
    table = header.table()
    header.only(table, _KEYS, "the comment")
    written = (header.launch_of(table), *map(header.launch_of, header.tables(table, "then")))
    for each in written:
        _check_text(path, text, each.entry)
    operations = [name for name in _OPERATIONS if name in table]
    if len(operations) > 1 or not (operations or "arguments" in table):
        raise header.wrong(
            "arguments",
            "give `arguments`, or one of `attention = {}`, `linear = {}`, `paged_attention = {}` for the "
            "arguments of evoflash's own kernels, or both where the arguments are named after its tensors",
        )
    if "arguments" in table and len(written) > 1:
        raise header.wrong("then", "several launches need the arguments of an operation, as `attention = {}`")
    operation = operations[0] if operations else ""
    return KernelFile(
        path=path,
        text=header.with_constants(text, header.tables(table, "constants")),
        written=written,
        workspace=header.expression("workspace", table.get("workspace", 0)),
        arguments=() if operation else header.arguments(header.tables(table, "arguments")),
        arguments_on=header.arguments_on if operation and "arguments" in table else None,
        loop=header.loop(table, operation, emulation_cost=_emulation_cost(text)),
        operation=operation,
        problem=header.problem(table, operation),
        maps=header.maps(table),
    )


def _toml_of(header_file: Path) -> str:
    try:
        return header_file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"--header {header_file} cannot be read ({why}): give a TOML file.") from None


def _emulation_cost(text: str) -> int:
    """About as of our own families that multiply by the same instructions: what takes the emulator long is
    asked fewer tiles.
    """
    return next((cost for words, cost in _COSTS if re.search(words, text)), _SCALAR_COST)


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
            raise self.wrong(key, f"{key} must be a list of tables, in order")
        return value

    def launch_of(self, table: Mapping[str, Any]) -> WrittenLaunch:
        if table.keys() - set(_KEYS):
            self.only(table, _LAUNCH_KEYS, "a launch")
        return WrittenLaunch(
            entry=self.need(table, "entry", str),
            grid=self.three(table, "grid"),
            block=self.three(table, "block"),
            smem=self.expression("smem", table.get("smem", 0)),
            cluster=self.numbers(table.get("cluster", 1), "cluster"),
            resident=self.flag(table, "resident"),
        )

    def loop(self, table: Mapping[str, Any], operation: str, *, emulation_cost: int) -> Loop | None:
        if not operation:
            return None
        given = dict(self.need(table, operation, dict))
        more = ("problem", "maps") if operation == "attention" else ("problem",)
        self.only(given, (*_LOOP_KEYS, *more), operation)
        given.pop("problem", None)
        given.pop("maps", None)
        for key, value in given.items():
            if type(value) is not int or value < 1:
                raise self.wrong(key, f"{key} = {value!r} must be a whole number from 1 up")
        # most_ctas: its grid may have blocks that take one piece of work after another; nobody says so.
        usual = {"rows": 64, "keys": 64, "stages": 2, "splits": 1, "most_ctas": 1}
        return Loop(**{**usual, "emulation_cost": emulation_cost, **given})

    def problem(self, table: Mapping[str, Any], operation: str) -> str:
        given = table.get(operation, {})
        return str(self.need(given, "problem", str)) if "problem" in given else ""

    def arguments_on(self, workload: Workload) -> tuple[Argument, ...]:
        """Those of a kernel that computes an operation: what has a tensor's name is that tensor, shapes and
        values may be expressions.
        """
        specs = {spec.name: spec for spec in operation_of(workload).tensors(workload)}
        names = _names(workload)
        if "head_dim" in names:
            names["scale"] = names["head_dim"] ** -0.5
        entries = self.tables(self.table(), "arguments")
        given = {entry.get("name") for entry in entries}
        missing = [spec.name for spec in specs.values() if not spec.is_optional and spec.name not in given]
        if missing:
            raise self.wrong("arguments", f"no argument is named {', '.join(missing)}, as the tensor is")

        def value_of(key: str, value: object) -> object:
            if not isinstance(value, str):
                return value
            return Expression(value, f"{self.path}:{self._line_of(key)}: {key}", (int, float, bool))(names)

        def entry_on(entry: Mapping[str, Any]) -> Mapping[str, Any]:
            spec, made = specs.get(str(entry.get("name"))), dict(entry)
            if spec is not None and not entry.keys() & {"shape", "value"}:
                word = FILE_TYPES.get(spec.dtype, spec.dtype)
                return {"dtype": word, **entry, "shape": list(spec.shape), "out": spec.role != "input"}
            if "shape" in made:
                sides = made["shape"] if isinstance(made["shape"], list) else [made["shape"]]
                made["shape"] = [value_of("shape", side) for side in sides]
            if "value" in made:
                value = value_of("value", made["value"])
                made["value"] = int(value) if isinstance(value, bool) else value
            return made

        try:
            return self.arguments([entry_on(entry) for entry in entries])
        except TemplateError as error:
            raise UsageError(str(error)) from None

    def with_constants(self, text: str, entries: Sequence[Mapping[str, Any]]) -> str:
        """The text where `__constant__` memory that the host would fill begins with these contents."""
        for entry in entries:
            constant = self.argument(entry)
            declared = re.search(
                rf"\b__constant__\b[^;{{}}()=]*\b{re.escape(constant.name)}\b[^;=]*(?=;)", text
            )
            if declared is None:
                raise self.wrong(
                    "constants", f"no `__constant__` without contents is named '{constant.name}'"
                )
            numbers = ", ".join(map(str, contents_of(constant).reshape(-1).tolist()))
            text = f"{text[: declared.end()]} = {{{numbers}}}{text[declared.end() :]}"
        return text

    def arguments(self, entries: Sequence[Mapping[str, Any]]) -> tuple[Argument, ...]:
        arguments = tuple(map(self.argument, entries))
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
