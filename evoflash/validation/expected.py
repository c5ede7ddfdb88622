"""The right outputs, as the validator needs them: which rows, and by what their errors are measured.

What is right is the operation's to compute.
"""

import math

import numpy as np
from numpy.typing import NDArray

from evoflash.operation import ExpectedRows, Sample, Scale, TensorSpec, Workload
from evoflash.operation.registry import operation_of


def outputs_of(workload: Workload, role: str) -> tuple[TensorSpec, ...]:
    """The tensors of a workload in that role: "rows" or "numbers"."""
    return tuple(spec for spec in operation_of(workload).tensors(workload) if spec.role == role)


def every_row(workload: Workload) -> Sample:
    """The whole output."""
    spec = outputs_of(workload, "rows")[0]
    return Sample(np.arange(math.prod(spec.group_shape)), np.arange(spec.shape[-2]))


def expected_rows(right: NDArray[np.float64], *honest: NDArray[np.float32]) -> ExpectedRows:
    """The right rows (groups, rows, columns), and one or more answers of honest arithmetic, the plain first.

    Errors are allowed by the worst of the honest answers.
    """
    return ExpectedRows(right, honest[0], _scale(right, *honest))


def _scale(out: NDArray[np.float64], *honest: NDArray[np.float32]) -> Scale:
    rms = np.sqrt((out**2).mean(axis=-1, keepdims=True))
    errors = [np.abs(answer - out) for answer in honest]
    squared = max(float((error**2).sum()) for error in errors)
    return Scale(
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
