"""What tests of the emulator share: tables of mistakes, schedules, and what was reported at which line."""

import tomllib
from functools import cache
from itertools import product
from typing import Any

import pytest
from places import TESTS

from evoflash.emulator.launch import Emulation

WAYS = [
    {"delivery": delivery, "schedule": schedule, "seed": seed}
    for delivery, schedule, seed in product(("eager", "lazy", "random"), ("fifo", "random"), (1, 2))
]


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads((TESTS / "emulator" / "faults.toml").read_text(encoding="utf-8"))


def told(table: str, *, sets: tuple[str, ...] = ()) -> list[object]:
    """The rows of a table of tests/emulator/faults.toml as cases; arguments named in `sets` become sets."""
    return [
        pytest.param(
            *(_as_set(value) if name in sets else value for name, value in row.items() if name != "id"),
            id=row.get("id"),
        )
        for row in _tables()[table]
    ]


def _as_set(values: list[Any]) -> set[Any]:
    return {tuple(value) if isinstance(value, list) else value for value in values}


def found(emulation: Emulation, source: str) -> set[tuple[str, str]]:
    """Kind of each report, and the text of its line in the kernel's source."""
    lines = ["", *source.splitlines()]
    return {(report.kind, lines[report.line].strip()) for report in emulation.reports}
