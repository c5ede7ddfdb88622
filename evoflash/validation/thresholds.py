"""The validator's thresholds: read from an operation's file, and looked up for a workload; judges nothing."""

import tomllib
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from evoflash.operation import Thresholds, Workload
from evoflash.operation.registry import operation_of


@lru_cache(maxsize=256)  # a batch of launches asks hundreds of times
def thresholds_of(workload: Workload) -> Thresholds:
    """The thresholds of a workload's precision."""
    return operation_of(workload).thresholds()[workload.precision]


@cache
def read_thresholds(path: Path) -> dict[str, Thresholds]:
    """The thresholds in a TOML file by Workload.precision: a table for each, `honest_factor` for all."""
    table = _table(path)
    factor = table["honest_factor"]
    precisions = {name: entry for name, entry in table.items() if isinstance(entry, dict)}
    return {name: Thresholds(honest_factor=factor, **entry) for name, entry in precisions.items()}


def calibration(path: Path) -> str:
    """The record that justifies the thresholds of a file: a path in the repository."""
    return str(_table(path)["calibration"])


@cache
def _table(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))
