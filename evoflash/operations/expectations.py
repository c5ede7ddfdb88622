"""Makes the records of right outputs, and reads the thresholds of a file. Judges nothing.

Which rows are compared, and by what their errors are measured, as the validator needs them.
"""

from __future__ import annotations

import math
import tomllib
from functools import cache, lru_cache, partial
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
    squared = 0.0
    if right.shape[0] * right.shape[1] <= FEW_ROWS:
        squared = max(map(partial(_likely_squared, right, dtype=dtype), unrounded, honest))
    return ExpectedRows(right, honest[0], _scale(right, *honest, at_least=squared))


def _scale(out: NDArray[np.float64], *honest: NDArray[np.float32], at_least: float) -> ErrorScale:
    rms = np.sqrt((out**2).mean(axis=-1, keepdims=True))
    errors = [np.abs(answer - out) for answer in honest]
    squared = max(at_least, *(float((error**2).sum()) for error in errors))
    return ErrorScale(
        rms, float((out**2).sum()), squared, max(float(over_rms(error, rms).max()) for error in errors)
    )


def _likely_squared(
    right: NDArray[np.float64], unrounded: NDArray[np.float32], rounded: NDArray[np.float32], *, dtype: str
) -> float:
    """The squared error of an answer, with the mean of what its last rounding may add, a twelfth of a squared
    step, in the place of what it adds here. Where one weight outweighs the others a row of equal values errs
    alike in all columns: over a few such rows a rounding can by luck undo the errors before it.
    """
    _, exponent = np.frexp(rounded)
    step = np.ldexp(1.0, np.maximum(exponent - _BITS[dtype], _LEAST_STEP[dtype]))
    noise = np.where(unrounded == rounded, 0.0, step**2 / 12)
    return float(((unrounded - right) ** 2 + noise).sum())


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
