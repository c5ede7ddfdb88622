"""Paged attention's thresholds: those of attention, because the arithmetic is the same. Judges nothing."""

from pathlib import Path

from evoflash.operation import Thresholds
from evoflash.operations.expectations import read_thresholds

FILE = Path(__file__).with_name("thresholds.toml")


def thresholds() -> dict[str, Thresholds]:
    """By Workload.precision."""
    return read_thresholds(FILE)
