"""What conformance is made of, as records: primitives, kernels, their launches, and what became of each.

The table of the ef:: layer's primitives is device/primitives.toml. Runs nothing.
"""

import itertools
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evoflash.emulator.tensor_map import Swizzle
from evoflash.launch import LaunchConfig
from evoflash.numerics import decode, encode
from evoflash.paths import DEVICE

Mode = int | bool | str

_FIELDS = ("file", "arch", "functions", "compare", "ulp")


@dataclass(frozen=True)
class Case:
    """One mode of one primitive: what a conformance kernel shows. `modes` holds the value on each axis."""

    function: str
    modes: Mapping[str, Mode]

    def __str__(self) -> str:
        values = " ".join(f"{axis}={value}" for axis, value in self.modes.items() if value != "")
        return f"{self.function} {values}".strip()


@dataclass(frozen=True)
class Primitive:
    """One table of the file: functions that differ in name only, in all their modes."""

    name: str
    file: str  # the header that holds it
    axes: Mapping[str, tuple[Mode, ...]]
    pattern: str  # the functions' names, with axes in braces
    arch: str = "sm_80"  # from which on; "sm_90a": there only
    compare: str = "bits"  # or "ulp", or "runs": see the file
    ulp: int = 0

    def cases(self) -> Iterator[Case]:
        """Every combination of the axes' values."""
        for values in itertools.product(*self.axes.values()):
            modes = dict(zip(self.axes, values, strict=True))
            yield Case(self.pattern.format(**modes), modes)

    def functions(self) -> set[str]:
        """The names of its functions in the header."""
        named = {axis: values for axis, values in self.axes.items() if f"{{{axis}}}" in self.pattern}
        points = itertools.product(*named.values())
        return {self.pattern.format(**dict(zip(named, point, strict=True))) for point in points}

    def runs_on(self, arch: str) -> bool:
        """Whether a GPU such as "sm_89" or "sm_90a" has it."""
        if self.arch.endswith("a"):
            return arch == self.arch
        return _number(arch) >= _number(self.arch)


@cache
def primitives() -> tuple[Primitive, ...]:
    """The table, in the file's order."""
    with (DEVICE / "primitives.toml").open("rb") as file:
        return tuple(_primitive(name, table) for name, table in tomllib.load(file).items())


def _primitive(name: str, table: dict[str, Any]) -> Primitive:
    axes = {key: _values(value) for key, value in table.items() if key not in _FIELDS}
    rest = {key: table[key] for key in ("arch", "compare", "ulp") if key in table}
    return Primitive(name, table["file"], axes, table.get("functions", name), **rest)


def _values(value: list[Mode] | str) -> tuple[Mode, ...]:
    if isinstance(value, list):
        return tuple(value)
    first, last, step = map(int, re.split(r"\.\.|:", value))
    return tuple(range(first, last + 1, step))


def _number(arch: str) -> int:
    return int(re.sub(r"\D", "", arch))


Array: TypeAlias = NDArray[Any]
Kind = Literal["bits", "f32", "f16", "bf16"]  # what a result's words are: of floats, every NaN is one NaN

UNWRITTEN = 0xA5A5A5A5  # what results hold before the launch


@dataclass(frozen=True, slots=True, eq=False)
class Pointer:
    """An argument: the address of a buffer of the trial."""

    buffer: str


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """An argument: a tensor map over a buffer. Extents in elements, innermost first; strides in bytes."""

    buffer: str
    dtype: str  # "f16", "bf16" or "float"
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: Swizzle

    @property
    def element_bytes(self) -> int:
        return 4 if self.dtype == "float" else 2


Argument: TypeAlias = Pointer | Map | np.generic


@dataclass(frozen=True, slots=True)
class Label:
    """A case of the table: the entry's name and the case as text."""

    primitive: str
    case: str

    @staticmethod
    def of(primitive: Primitive, case: Case) -> "Label":
        return Label(primitive.name, str(case))


@dataclass(frozen=True, slots=True)
class Bound:
    """Approximations: how far results may be from the exact values, correctly rounded to floats, in units in
    the last place. With `flat`: from the exact values themselves, in units of 2^-23, absolute for inputs
    between the two, relative for others.
    """

    exact: Callable[[Array], Array]  # inputs as float64 -> results as float64, with what .ftz does
    ulp: int
    flat: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """Launches of one kernel text on the same buffers, and the cases that their results are about.

    With several cases the leading axis of each result is theirs. `expected`: what NumPy says that results
    are, where it says anything.
    """

    cases: tuple[Label, ...]
    launches: tuple[LaunchConfig, ...]
    arguments: tuple[Argument, ...]
    inputs: Mapping[str, Array]
    results: Mapping[str, Array]  # written by the kernel: as they are before the launch
    kind: Kind = "bits"
    expected: Mapping[str, Array] = field(default_factory=dict)
    bound: Bound | None = None


@dataclass(frozen=True, slots=True)
class Module:
    """One text for both compilers, and its trials, made when they are needed: their arrays are large."""

    name: str
    source: str
    labels: tuple[Label, ...]  # of all its trials' cases
    make: Callable[[], Iterator[Trial]]


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What became of one case: equal, or in `detail` what differs; of approximations the largest errors."""

    label: Label
    ok: bool
    detail: str = ""
    ulp: Mapping[str, float] = field(default_factory=dict)  # by where: "gpu", "emulator"
    end: Literal["compared", "crashed", "not run"] = "compared"  # crashed: or hung


NAMES = {"f16": "fp16", "bf16": "bf16", "float": "fp32"}  # primitives have the words of C++


def to_bits(values: Array, dtype: str) -> Array:
    """Numbers as bits of the nearest "f16", "bf16" or "float"."""
    floats = values.astype(np.float32)
    return floats if dtype == "float" else encode(floats, NAMES[dtype])


def value_of(words: Array, dtype: str) -> Array:
    """The other way round, as float32."""
    return words.view(np.float32) if dtype == "float" else decode(words, NAMES[dtype])
