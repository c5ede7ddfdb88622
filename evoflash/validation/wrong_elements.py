"""Where an output is wrong, in words for people; what is wrong, validator.py decides."""

import numpy as np
from numpy.typing import NDArray

from evoflash.operation import Expected, Output, Workload
from evoflash.operation.registry import operation_of
from evoflash.validation.bits import decode
from evoflash.validation.expected import outputs_of, over_rms
from evoflash.validation.thresholds import thresholds_of
from evoflash.validation.validator import in_groups, place_of


def describe_error(workload: Workload, expected: Expected, output: Output) -> tuple[str, str]:
    """The worst element with its value, and which rows and columns are wrong; `expected` is of every row.

    Of several outputs of rows, that of the first one that is wrong.
    """
    said = [_described(workload, spec.name, expected, output) for spec in outputs_of(workload, "rows")]
    worst, extent, _ = next((entry for entry in said if entry[2]), said[0])
    return worst, extent


def _described(workload: Workload, name: str, expected: Expected, output: Output) -> tuple[str, str, int]:
    spec = next(each for each in outputs_of(workload, "rows") if each.name == name)
    right = expected.rows[name]
    got = decode(in_groups(output.tensors[name], spec), spec.dtype)
    relative = over_rms(np.abs(got - right.right), right.scale.rms)
    relative = np.where(np.isfinite(relative), relative, np.inf)
    at = np.unravel_index(int(relative.argmax()), relative.shape)
    whole = np.unravel_index(int(relative.argmax()), spec.shape)
    value, true = float(got[at]), float(right.right[at])
    worst = f"{name} is {value:.5g} instead of {true:.5g} at {place_of(spec, whole)}, its worst element"
    wrong = relative > thresholds_of(workload).max_over_rms
    return worst, _extent(wrong, operation_of(workload).groups), int(wrong.sum())


def _extent(wrong: NDArray[np.bool_], groups: str) -> str:
    """How many elements are wrong, and in which groups, rows and columns."""
    extent = f"{int(wrong.sum()):,} of {wrong.size:,} elements are wrong"
    if wrong.any():
        numbers, rows, columns = (_ranges(np.unique(numbers)) for numbers in np.nonzero(wrong))
        extent += f": {groups} {numbers}, rows {rows}, columns {columns}"
    return extent


def _ranges(numbers: NDArray[np.intp], most: int = 6) -> str:
    """ "0-31,64": ascending numbers, neighbours joined."""
    breaks = np.flatnonzero(np.diff(numbers) > 1) + 1
    runs = [part for part in np.split(numbers, breaks) if len(part)]
    words = [str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in runs]
    return ",".join(words[:most]) + (",..." if len(words) > most else "")
