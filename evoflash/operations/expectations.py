"""What must hold of any operation's outputs, as records: thresholds, right rows, relations. Judges nothing.

An operation's kernel that computes right answers, as a record; gpu/process/check_batch.py runs it.
The right outputs, as the validator needs them: which rows, and by what their errors are measured.
What must hold between outputs of changed inputs, as records: an operation makes them, the validator asks a
kernel. Nothing is computed here.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.launch import LaunchConfig
from evoflash.operation import (
    ErrorScale,
    ExpectedRows,
    Sample,
    TensorSpec,
    Thresholds,
    Workload,
    operation_of,
)

# What the references of all kinds of attention share: it precedes the text of each.
RIGHT_ROWS = Path(__file__).with_name("right_rows.cu").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True, eq=False)
class DeviceReference:
    """A kernel that computes what is right: one output of rows in fp32, perhaps one of numbers in fp64, and
    of each row the sum of squares, and of two kinds of honest arithmetic the squared errors' sum and the
    largest one. Where no block of threads has whole rows, a second kernel with the same parameters tells of
    each row.
    """

    text: str  # on the ef:: layer
    entry: str
    threads: int  # of a block
    output: str  # the names of the tensors
    numbers: str  # empty: the operation has none
    applies: Callable[[Any], bool]  # to a workload
    blocks: Callable[[Any], NDArray[np.int32]]  # a line for each block, which the kernel reads
    rows: Callable[[Any], NDArray[np.intp]]  # that it stores, counted through all groups: all, or a sample
    # (workload, addresses: of the inputs, and of blocks, right, numbers, per_row, honest) -> arguments of a
    # launch
    arguments: Callable[[Any, Mapping[str, int]], tuple[np.generic, ...]]
    # The second kernel, a block for each row, which finds in `honest` what the first one left, as in `right`
    entry_of_rows: str = ""

    def launches(self, workload: Workload) -> tuple[LaunchConfig, ...]:
        block, first = (self.threads, 1, 1), len(self.blocks(workload))
        launch = LaunchConfig(self.entry, (first, 1, 1), block, 0)
        if not self.entry_of_rows:
            return (launch,)
        return launch, LaunchConfig(self.entry_of_rows, (len(self.rows(workload)), 1, 1), block, 0)


def outputs_of(workload: Workload, role: str) -> tuple[TensorSpec, ...]:
    """The tensors of a workload in that role: "rows" or "numbers"."""
    return tuple(spec for spec in operation_of(workload).tensors(workload) if spec.role == role)


def every_row(workload: Workload) -> Sample:
    spec = outputs_of(workload, "rows")[0]
    return Sample(np.arange(math.prod(spec.group_shape)), np.arange(spec.shape[-2]))


def expected_rows(right: NDArray[np.float64], *honest: NDArray[np.float32]) -> ExpectedRows:
    """The right rows (groups, rows, columns), and one or more answers of honest arithmetic, the plain first.

    Errors are allowed by the worst of the honest answers.
    """
    return ExpectedRows(right, honest[0], _scale(right, *honest))


def _scale(out: NDArray[np.float64], *honest: NDArray[np.float32]) -> ErrorScale:
    rms = np.sqrt((out**2).mean(axis=-1, keepdims=True))
    errors = [np.abs(answer - out) for answer in honest]
    squared = max(float((error**2).sum()) for error in errors)
    return ErrorScale(
        rms, float((out**2).sum()), squared, max(float(over_rms(error, rms).max()) for error in errors)
    )


def over_rms(error: NDArray[np.float64], rms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Errors over the RMS of their rows; a row that is all zero (nothing visible) allows no error at all."""
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = error / rms
    if not rms.all():
        relative = np.where(error == 0, 0.0, relative)
    return relative


def distance(got: NDArray[np.float32], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far numbers are from the right ones: 0 for equal infinities, infinite for a NaN."""
    with np.errstate(invalid="ignore"):
        error = np.where(got == right, 0.0, np.abs(got - right))
    return np.where(np.isfinite(error), error, np.inf)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """One side of a relation: the sum of some runs' outputs, at some rows in some order."""

    runs: tuple[Any, ...]  # test inputs
    rows: NDArray[np.intp] | None = None  # counted through all groups; None: all of them in order


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """Two sides that must agree but for rounding. `before` may be known: numbers by tensor name, (rows,
    columns). `is_exact`: one run on either side, which agree in every bit, of a kernel that repeats itself;
    of those before, the rows are those after in whole groups, and of those after they are all.
    """

    change: str  # what was changed, in words
    before: Rows | Mapping[str, NDArray[np.float64]]
    after: Rows
    is_exact: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Reach:
    """Which rows a change of the inputs reaches: in no group a row before `first_row`, not by one bit; and
    each row from there on in at least one group.
    """

    mask: str  # what keeps the change from the rows before, in words
    change: str  # what the rows see of it, in words
    before: Any  # test inputs
    after: Any
    first_row: int


@lru_cache(maxsize=256)  # a batch of launches asks hundreds of times
def thresholds_of(workload: Workload) -> Thresholds:
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
