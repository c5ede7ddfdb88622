"""The validator's thresholds, from thresholds.toml, which holds all of them; judges nothing."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from evoflash.problem import Workload


@dataclass(frozen=True, slots=True)
class Gates:
    """The thresholds of one precision. What is measured against each: validator.py."""

    rel_l2: float
    max_over_rms: float
    honest_floor: float  # as rel_l2
    lse_absolute: float
    lse_relative: float  # of |LSE|
    honest_factor: float


def gates_of(workload: Workload) -> Gates:
    """The gates of a workload's precision."""
    return all_gates()[workload.precision]


@cache
def all_gates() -> dict[str, Gates]:
    """By Workload.precision."""
    table = _table()
    factor = table["honest_factor"]
    precisions = {name: entry for name, entry in table.items() if isinstance(entry, dict)}
    return {name: Gates(honest_factor=factor, **entry) for name, entry in precisions.items()}


def calibration() -> str:
    """The record that justifies the gates: a path in the repository."""
    return str(_table()["calibration"])


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("thresholds.toml").read_text(encoding="utf-8"))
