"""Makes the records of right outputs, and reads the thresholds of a file. Judges nothing.

Which rows are compared, and by what their errors are measured, as the validator needs them.
"""

from __future__ import annotations

import math
import tomllib
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.numerics import round_to
from evoflash.operation import operation_of
from evoflash.workload import (
    ErrorScale,
    ExpectedRows,
    Sample,
    TensorSpec,
    Thresholds,
    Workload,
)

FEW_ROWS = 64  # over more the errors that honest arithmetic makes are close to their mean
_BITS, _LEAST_STEP = {"fp16": 11, "bf16": 8}, {"fp16": -24, "bf16": -133}  # of a mantissa; powers of two
# What the references of all kinds of attention share: it precedes the text of each.
RIGHT_ROWS = Path(__file__).with_name("right_rows.cu").read_text(encoding="utf-8")


def outputs_of(workload: Workload, role: str) -> tuple[TensorSpec, ...]:
    """The tensors of a workload in that role: "rows" or "numbers"."""
    return tuple(spec for spec in operation_of(workload).tensors(workload) if spec.role == role)


def every_row(workload: Workload) -> Sample:
    spec = outputs_of(workload, "rows")[0]
    return Sample(np.arange(math.prod(spec.group_shape)), np.arange(spec.shape[-2]))


def expected_rows(right: NDArray[np.float64], *unrounded: NDArray[np.float32], dtype: str) -> ExpectedRows:
    """The right rows (groups, rows, columns), and one or more answers of honest arithmetic, the plain first,
    before they are rounded to the type of the output.

    Errors are allowed by the worst of the honest answers.
    """
    honest = [round_to(answer, dtype) for answer in unrounded]
    rms = np.sqrt((right**2).mean(axis=-1, keepdims=True))
    errors = [_errors(right, *each, dtype=dtype) for each in zip(unrounded, honest, strict=True)]
    scale = ErrorScale(
        rms,
        float((right**2).sum()),
        max(squared for squared, _ in errors),
        max(float(over_rms(furthest, rms).max()) for _, furthest in errors),
    )
    return ExpectedRows(right, honest[0], scale)


def _errors(
    right: NDArray[np.float64], unrounded: NDArray[np.float32], rounded: NDArray[np.float32], *, dtype: str
) -> tuple[float, NDArray[np.float64]]:
    """The sum of an answer's squared errors, and how far each element is off. Of few rows at least with the
    mean, a twelfth of a squared step, and the most, half a step, of what the last rounding may add: where one
    weight outweighs the others all columns err alike, and a rounding can by luck undo that.
    """
    error = np.abs(rounded - right)
    squared = float((error**2).sum())
    if right.shape[0] * right.shape[1] > FEW_ROWS:
        return squared, error
    _, exponent = np.frexp(rounded)
    step = np.ldexp(1.0, np.maximum(exponent - _BITS[dtype], _LEAST_STEP[dtype]))
    step[unrounded == rounded] = 0.0
    before = np.abs(unrounded - right)
    likely = float((before**2 + step**2 / 12).sum())
    return max(squared, likely), np.maximum(error, before + step / 2)


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
