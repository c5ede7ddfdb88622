"""Is an output right? Checks without a reference that every operation shares: runs repeat, outputs agree.

What must hold between outputs of changed inputs is the operation's to say. Where both outputs are rounded,
they may differ by twice the threshold: each may be off in its own direction.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.operation import Kernel, Output, TensorSpec, TestInput, Workload
from evoflash.validation.bits import decode
from evoflash.validation.expected import outputs_of, over_rms
from evoflash.validation.thresholds import thresholds_of
from evoflash.validation.validator import error_ratio, place_of

_BOTH = 2  # outputs that are off

Rows = Mapping[str, NDArray[Any]]  # of an output, by tensor name: numbers in whatever float type


def repeats(kernel: Kernel, inputs: TestInput, *, workload: Workload) -> str:
    """Empty when two runs on the same input agree in every bit; else what differs. Catches races."""
    return differing(kernel(inputs), kernel(inputs), workload=workload)


def differing(first: Output, second: Output, *, workload: Workload) -> str:
    """Empty when two runs' outputs of rows agree in every bit; else what differs."""
    for spec in outputs_of(workload, "rows"):
        unequal = first.tensors[spec.name] != second.tensors[spec.name]
        if count := int(unequal.sum()):
            at = np.unravel_index(int(unequal.argmax()), unequal.shape)
            place = place_of(spec, at)
            return f"two runs on the same input differ in {count} elements, the first at {place}"
    return ""


def moved(change: str, before: Output | Rows, after: Output | Rows, *, workload: Workload) -> str:
    """Empty when two outputs agree but for rounding; else how far one moved, or where one element did."""
    reasons = (
        _moved(change, spec, before, after, workload=workload) for spec in outputs_of(workload, "rows")
    )
    return next(filter(None, reasons), "")


def values_of(output: Output, spec: TensorSpec) -> NDArray[np.float32]:
    """The numbers of one tensor of rows."""
    return decode(output.tensors[spec.name], spec.dtype)


def _moved(
    change: str, spec: TensorSpec, before: Output | Rows, after: Output | Rows, *, workload: Workload
) -> str:
    old, new = (values_of(x, spec) if isinstance(x, Output) else x[spec.name] for x in (before, after))
    error, thresholds = np.abs(new.astype(np.float64) - old), thresholds_of(workload)
    distance = error_ratio(float((error**2).sum()), float((old.astype(np.float64) ** 2).sum()))
    if not distance <= _BOTH * thresholds.rel_l2:
        return f"{change}: the output moves by rel_l2 {distance:.1e} > {_BOTH * thresholds.rel_l2:.0e}"
    rms = np.sqrt((old.astype(np.float64) ** 2).mean(axis=-1, keepdims=True))
    relative = over_rms(error, rms)
    if not (relative <= _BOTH * thresholds.max_over_rms).all():
        at = np.unravel_index(int(relative.argmax()), relative.shape)
        size = f"{relative.max():.1e} > {_BOTH * thresholds.max_over_rms:.0e} of its row's RMS"
        place = " ".join(f"{axis}={i}" for axis, i in zip(spec.axes, at, strict=True))
        return f"{change}: an element moves by {size}: {place}"
    return ""
