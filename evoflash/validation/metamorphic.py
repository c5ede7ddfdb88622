"""Checks an output without a reference: runs repeat, outputs of changed inputs agree. Runs no kernel itself.

What must hold between outputs of changed inputs is the operation's to say. Where both outputs are rounded,
they may differ by twice the threshold: each may be off in its own direction.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.numerics import decode
from evoflash.operations.expectations import outputs_of, over_rms, thresholds_of
from evoflash.validation.validator import error_ratio, place_of
from evoflash.workload import KernelCall, Output, Reach, Relation, Rows, TensorSpec, TestInput, Workload

BOTH = 2  # outputs that are off


def repeats(kernel: KernelCall, inputs: TestInput, *, workload: Workload) -> str:
    """Empty when two runs on the same input agree in every bit; else what differs. Catches races."""
    return differing(kernel(inputs), kernel(inputs), workload=workload)


def differing(
    first: Output,
    second: Output,
    *,
    workload: Workload,
    words: str = "two runs on the same input differ",
    rows: NDArray[np.intp] | None = None,
) -> str:
    """Empty when two runs' outputs of rows agree in every bit; else the words, and what differs.

    `rows`: which of the first's, counted through all groups, are the second's in order; None: all.
    """
    for spec in outputs_of(workload, "rows"):
        one, other = first.tensors[spec.name], second.tensors[spec.name]
        if rows is not None:
            one = one.reshape(-1, spec.shape[-1])[rows].reshape(other.shape)
        unequal = one != other
        if count := int(unequal.sum()):
            at = np.unravel_index(int(unequal.argmax()), unequal.shape)
            return f"{words} in {count} elements, the first at {place_of(spec, at)}"
    return ""


def complaint(kernel: KernelCall, holding: Iterable[Relation | Reach], *, workload: Workload) -> str:
    """The first complaint of an operation's relations about a kernel; empty when they have none."""
    return next(filter(None, (_complaint(kernel, each, workload) for each in holding)), "")


def _complaint(kernel: KernelCall, holding: Relation | Reach, workload: Workload) -> str:
    if isinstance(holding, Reach):
        return _reach_violation(kernel, holding, workload)
    after = [kernel(inputs) for inputs in holding.after.runs]
    before = holding.before
    runs = [kernel(inputs) for inputs in before.runs] if isinstance(before, Rows) else []
    for spec in outputs_of(workload, "rows"):
        old = _sum(runs, before.rows, spec) if isinstance(before, Rows) else before[spec.name]
        new = _sum(after, holding.after.rows, spec)
        if reason := _drift(holding.change, spec, old, new, holding.after.rows, workload):
            return reason
    return ""


def _sum(outputs: Sequence[Output], rows: NDArray[np.intp] | None, spec: TensorSpec) -> NDArray[np.float32]:
    """The sum of outputs: (rows, columns)."""
    total = sum(decode(out.tensors[spec.name], spec.dtype).reshape(-1, spec.shape[-1]) for out in outputs)
    numbers: NDArray[np.float32] = np.asarray(total)
    return numbers if rows is None else numbers[rows]


def _reach_violation(kernel: KernelCall, reach: Reach, workload: Workload) -> str:
    before, after = kernel(reach.before), kernel(reach.after)
    for spec in outputs_of(workload, "rows"):
        changed = before.tensors[spec.name] != after.tensors[spec.name]
        by_row = changed.reshape(-1, *spec.shape[-2:]).any(axis=(0, 2))
        blind, seeing = by_row[: reach.first_row], by_row[reach.first_row :]
        if blind.any():
            row = int(blind.argmax())
            return f"{reach.mask}: row {row} changes with {reach.change}, which it must not see"
        if not seeing.all():
            return f"{reach.mask}: row {reach.first_row + int(seeing.argmin())} ignores {reach.change}"
    return ""


def _drift(
    change: str,
    spec: TensorSpec,
    old: NDArray[Any],
    new: NDArray[np.float32],
    rows: NDArray[np.intp] | None,
    workload: Workload,
) -> str:
    """Empty when (rows, columns) agree but for rounding; else how far they moved, or where one element did.

    `rows` says which of the tensor's they are, without: all.
    """
    error = np.abs(new.astype(np.float64) - old)
    squares = (old.astype(np.float64) ** 2).sum(axis=-1)
    reason = drift_of_sums(change, float((error**2).sum()), float(squares.sum()), workload=workload)
    relative = over_rms(error, np.sqrt(squares / old.shape[-1])[:, None])
    if reason or (relative <= BOTH * thresholds_of(workload).max_over_rms).all():
        return reason
    row, column = np.unravel_index(int(relative.argmax()), relative.shape)
    at = int(row if rows is None else rows[row])
    return drift_of_worst(change, float(relative.max()), (at, int(column)), spec, workload=workload)


def drift_of_sums(change: str, squared: float, before_squared: float, *, workload: Workload) -> str:
    """Empty when an output moves by no more than rounding may; squares are sums over all its elements."""
    distance, limit = error_ratio(squared, before_squared), BOTH * thresholds_of(workload).rel_l2
    return "" if distance <= limit else f"{change}: the output moves by rel_l2 {distance:.1e} > {limit:.0e}"


def drift_of_worst(
    change: str, relative: float, at: tuple[int, int], spec: TensorSpec, *, workload: Workload
) -> str:
    """Empty when the element that moves most, over its row's RMS, may; `at` is its row, counted through, and
    its column.
    """
    limit = BOTH * thresholds_of(workload).max_over_rms
    if relative <= limit:
        return ""
    place = place_of(spec, (*np.unravel_index(at[0], spec.shape[:-1]), at[1]))
    return f"{change}: an element moves by {relative:.1e} > {limit:.0e} of its row's RMS: {place}"
