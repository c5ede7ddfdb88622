"""The table of the ef:: layer's primitives (device/primitives.toml) as records. Runs none of them."""

import itertools
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

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
