"""Test inputs with their right answers, each computed once. Runs and judges nothing.

Processes that are given one folder also share them as files: one that takes the place of another that crashed
then computes nothing again.
"""

import hashlib
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from evoflash.operation import Expected, TestInput, Workload
from evoflash.operation.registry import operation_of
from evoflash.validation.expected import every_row
from evoflash.validation.shared_values import shared

T = TypeVar("T")

_FOLDER = "EVOFLASH_SHARED_CASES"  # the variable in which a process notes its folder; set by share_in() alone


def draw_case(workload: Workload, name: str, seed: int) -> tuple[TestInput, Expected]:
    """A test input of a small workload, and what is right at every row. Nobody may write to either."""
    operation = operation_of(workload)
    inputs: TestInput = operation.draw(name, workload, seed=seed)
    return inputs, operation.expect(workload, inputs, where=every_row(workload))


def share_in(folder: str) -> None:
    """From here on this process keeps its cases in that folder as well, and finds those of others there."""
    os.environ[_FOLDER] = folder


@lru_cache(maxsize=512)
def case(workload: Workload, name: str, seed: int) -> tuple[TestInput, Expected]:
    """draw_case(), remembered: all candidates meet the same check shapes."""
    return kept((workload, name, seed), lambda: draw_case(workload, name, seed))


def keep_case(folder: str, workload: Workload, name: str, seed: int) -> None:
    """Have case() find it, in whatever process shares that folder."""
    shared(place_of(folder, (workload, name, seed)), lambda: draw_case(workload, name, seed))


def kept(key: object, make: Callable[[], T]) -> T:
    """What `make` makes, or what another process that shares this one's folder made under that key."""
    folder = os.environ.get(_FOLDER)
    return make() if folder is None else shared(place_of(folder, key), make)


def place_of(folder: str, key: object) -> Path:
    """The file of that folder in which a value is kept; keys are told apart by their repr()."""
    return Path(folder) / hashlib.sha256(repr(key).encode()).hexdigest()
