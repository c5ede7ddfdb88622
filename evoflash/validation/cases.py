"""Test inputs of small workloads with their right answers, each computed once. Runs and judges nothing.

Processes that are given one folder also share them as files: one that takes the place of another that crashed
then computes nothing again. The files are trusted, so the folder must be private to whoever starts them.
"""

import hashlib
import os
import pickle
from functools import lru_cache
from pathlib import Path

from evoflash.operation import Expected, TestInput, Workload
from evoflash.operation.registry import operation_of
from evoflash.validation.expected import every_row

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
    folder = os.environ.get(_FOLDER)
    if folder is None:
        return draw_case(workload, name, seed)
    path = Path(folder) / hashlib.sha256(repr((workload, name, seed)).encode()).hexdigest()
    if path.exists():
        found: tuple[TestInput, Expected] = pickle.loads(path.read_bytes())
        return found
    drawn = draw_case(workload, name, seed)
    _write(path, pickle.dumps(drawn, protocol=pickle.HIGHEST_PROTOCOL))
    return drawn


def _write(path: Path, text: bytes) -> None:
    """Whole or not at all. Where the folder is gone or full the case is simply not shared."""
    part = path.with_suffix(f".{os.getpid()}")
    try:
        part.write_bytes(text)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
