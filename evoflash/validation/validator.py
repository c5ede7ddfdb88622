"""Judges an output against the fp64 reference by thresholds. metamorphic.py has checks without one. No GPU.

The thresholds, and what each is for (a calibration on real kernels justifies an operation's values):

    non-finite   a NaN or infinity anywhere: a tile never written (outputs are poisoned with NaN), an overflow
    rel_l2       |out - ref| / |ref|, pooled over groups and over the test inputs of ordinary data; where
                 honest arithmetic is further off, on a few rows that one key dominates each, up to that
    honest       each input: at most twice the error of plain careful arithmetic in the same precision
    max_over_rms the worst element, over the RMS of its own row: one wrong item in one row; where honest
                 arithmetic is far off itself, up to twice that
    lse          of an output of numbers, LSE say: |lse - ref| within absolute + relative |ref|, and -inf
                 exactly where the reference has it (or twice honest arithmetic's error, where that excuses)

An absolute tolerance for rows stands nowhere: at 4096 keys a zeroed output of attention is within 5e-2 of the
truth.

The worst element is measured against its row, not against the whole output: under a causal mask the first
rows are as large as V, the last ones small, and honest bf16 at S = 512 stands at 4.7e-2 of the global RMS.

Where an output is wrong is told in words for people.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.evaluation import Verdict
from evoflash.numerics import decode, is_non_finite
from evoflash.operation import operation_of
from evoflash.operations.expectations import distance, outputs_of, over_rms, thresholds_of
from evoflash.workload import (
    ExpectedNumbers,
    ExpectedOutputs,
    ExpectedRows,
    Output,
    Sample,
    TensorSpec,
    TestInput,
    Thresholds,
    Workload,
)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What the thresholds need of an output: its rows at a sample, and whether all of it is finite."""

    tensors: Mapping[str, NDArray[Any]]  # by name: (groups, rows, columns), or (groups, rows) of numbers
    broken: str  # a NaN or infinity anywhere in the whole output, in words; else empty


@dataclass(frozen=True, slots=True)
class Errors:
    """How far the output for one test input is from the reference; judge() compares it with thresholds."""

    inputs: str  # the test input's name
    is_ordinary: bool
    squared: float  # sum of squared errors
    reference_squared: float
    honest_squared: float
    max_over_rms: float
    honest_max_over_rms: float
    lse: float  # the worst of the numbers, over what its threshold allows: up to 1 passes
    lse_error: float
    broken: str  # a non-finite element, in words
    where: str  # the worst element, in words
    lse_where: str

    @property
    def rel_l2(self) -> float:
        return error_ratio(self.squared, self.reference_squared)

    @property
    def honest_rel_l2(self) -> float:
        return error_ratio(self.honest_squared, self.reference_squared)

    def honest_ratio(self, thresholds: Thresholds) -> float:
        """rel_l2 over that of an honest computation in the same precision."""
        # Where honest arithmetic is exact (one key, one dominating key) twice its error is nothing.
        return self.rel_l2 / max(self.honest_rel_l2, thresholds.honest_floor / thresholds.honest_factor)

    def max_over_rms_limit(self, thresholds: Thresholds) -> float:
        """What max_over_rms may be: more is honest where values of a row cancel, or one is far larger."""
        return max(thresholds.max_over_rms, thresholds.honest_factor * self.honest_max_over_rms)


def part_of(output: Output, sample: Sample, *, workload: Workload) -> Part:
    """An output at a sample, with a word on all of it."""
    specs = operation_of(workload).tensors(workload)
    tensors = {
        spec.name: in_groups(output.tensors[spec.name], spec)[np.ix_(sample.groups, sample.rows)]
        for spec in specs
        if spec.name in output.tensors
    }
    rows = (spec for spec in specs if spec.role == "rows")
    broken = (_first_non_finite(output.tensors[spec.name], spec) for spec in rows)
    return Part(tensors, next(filter(None, broken), ""))


def in_groups(values: NDArray[Any], spec: TensorSpec) -> NDArray[Any]:
    """An output's values as (groups, rows, columns), or (groups, rows) where it is a number for each row."""
    return values.reshape(-1, *spec.shape[-2 if spec.role == "rows" else -1 :])


def judge(workload: Workload, results: Iterable[tuple[TestInput, ExpectedOutputs, Output | Part]]) -> Verdict:
    """The verdict over the test inputs of a workload; its reason names threshold, input and place.

    The first input that fails is the last one looked at.
    """
    return judge_errors(workload, (measure(workload, *result) for result in results))


def judge_errors(workload: Workload, measured: Iterable[Errors]) -> Verdict:
    """As judge(), of errors that were measured, wherever that was."""
    thresholds, errors, reason = thresholds_of(workload), [], ""
    for each in measured:
        errors.append(each)
        if reason := _complaint(each, workload):
            break
    ordinary = [e for e in errors if e.is_ordinary]
    together = pool_errors(ordinary or errors)
    # P of a key that outweighs a row's others errs alike in all columns: over a few rows that is no mean.
    limit = max(thresholds.rel_l2, together.honest_rel_l2)
    if not reason and ordinary and not together.rel_l2 <= limit:
        reason = f"rel_l2 {together.rel_l2:.2e} > {limit:.2g} pooled; worst {together.where}"
    return Verdict(
        workload=str(workload),
        passed=not reason,
        rel_l2=together.rel_l2,
        max_over_rms=max(e.max_over_rms for e in errors),
        lse_error=max(e.lse_error for e in errors),
        honest_ratio=max(e.honest_ratio(thresholds) for e in errors),
        reason=reason,
    )


def pool_errors(errors: Sequence[Errors]) -> Errors:
    """Several test inputs, or several tensors, as one, by the place of the worst of them."""
    if len(errors) == 1:
        return errors[0]
    return replace(
        max(errors, key=lambda e: e.max_over_rms),
        squared=sum(e.squared for e in errors),
        reference_squared=sum(e.reference_squared for e in errors),
        honest_squared=sum(e.honest_squared for e in errors),
    )


def _complaint(errors: Errors, workload: Workload) -> str:
    thresholds = thresholds_of(workload)
    if errors.broken:
        return f"non-finite in {errors.inputs}: {errors.broken}"
    ratio = errors.honest_ratio(thresholds)
    if not ratio <= thresholds.honest_factor:
        return (
            f"honest in {errors.inputs}: rel_l2 {errors.rel_l2:.2e} is {ratio:.1f} times that of honest "
            f"{workload.precision} arithmetic; first wrong at {errors.where}"
        )
    limit = errors.max_over_rms_limit(thresholds)
    if not errors.max_over_rms <= limit:
        size = f"{errors.max_over_rms:.2e} > {limit:.0e}"
        return f"max_over_rms in {errors.inputs}: {size}; first wrong at {errors.where}"
    if not errors.lse <= 1:
        return f"lse in {errors.inputs}: off by {errors.lse_error:.2e} at {errors.lse_where}"
    return ""


def error_ratio(squared: float, reference_squared: float) -> float:
    """|error| / |reference| from their squares; nothing over nothing is 0."""
    if reference_squared == 0:
        return 0.0 if squared == 0 else float("inf")
    return float(np.sqrt(squared / reference_squared))


def measure(
    workload: Workload, inputs: TestInput, expected: ExpectedOutputs, output: Output | Part
) -> Errors:
    """The errors of an output, at the rows that the reference knows; whether it is finite, everywhere."""
    part = output if isinstance(output, Part) else part_of(output, expected.sample, workload=workload)
    is_ordinary = inputs.name in operation_of(workload).inputs.ordinary
    nothing = Errors(inputs.name, is_ordinary, 0, 0, 0, 0, 0, 0, 0, part.broken, "", "")
    tensors = outputs_of(workload, "rows")
    named = [
        _row_errors(nothing, spec, part, expected, workload, is_named=len(tensors) > 1) for spec in tensors
    ]
    return _with_numbers(pool_errors(named), part, expected, workload)


def _row_errors(
    nothing: Errors,
    spec: TensorSpec,
    part: Part,
    expected: ExpectedOutputs,
    workload: Workload,
    *,
    is_named: bool,
) -> Errors:
    right: ExpectedRows = expected.rows[spec.name]
    with np.errstate(invalid="ignore"):  # a signalling NaN in a wrong output
        error = np.abs(decode(part.tensors[spec.name], spec.dtype) - right.right)
    relative = over_rms(error, right.scale.rms)
    where = _first_wrong(relative, expected.sample, spec, limit=thresholds_of(workload).max_over_rms)
    return replace(
        nothing,
        squared=float((error**2).sum()),
        reference_squared=right.scale.squared,
        honest_squared=right.scale.honest_squared,
        max_over_rms=float(relative.max()),
        honest_max_over_rms=right.scale.honest_max_over_rms,
        where=f"{spec.name} {where}" if is_named else where,
    )


def _with_numbers(errors: Errors, part: Part, expected: ExpectedOutputs, workload: Workload) -> Errors:
    """With the errors of the outputs of numbers; one that was not asked for has none."""
    for spec in outputs_of(workload, "numbers"):
        right = expected.numbers[spec.name]
        got = part.tensors.get(spec.name)
        error, relative = _number_errors(got, right, workload)
        at = np.unravel_index(np.argmax(relative), relative.shape)
        if not errors.lse_where or not relative[at] <= errors.lse:
            place = _place(expected.sample, spec, at)
            errors = replace(errors, lse=float(relative.max()), lse_error=float(error[at]), lse_where=place)
    return errors


def _number_errors(
    got: NDArray[np.float32] | None, right: ExpectedNumbers, workload: Workload
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """|got - right|, and the same over what is allowed; both (groups, rows)."""
    if got is None:
        return np.zeros_like(right.right), np.zeros_like(right.right)
    error = distance(got, right.right)
    thresholds = thresholds_of(workload)
    size = np.where(np.isfinite(right.right), np.abs(right.right), 0)
    allowed = thresholds.lse_absolute + thresholds.lse_relative * size
    return error, error / np.maximum(allowed, thresholds.honest_factor * right.excused)


def _first_non_finite(values: NDArray[np.uint16], spec: TensorSpec) -> str:
    bad = is_non_finite(values, spec.dtype)
    if not bad.any():
        return ""
    at = np.unravel_index(int(bad.argmax()), values.shape)
    return f"{int(bad.sum())} of {bad.size} elements, the first at {place_of(spec, at)}"


def place_of(spec: TensorSpec, at: Sequence[int | np.intp]) -> str:
    """One element of a tensor in words: "b=0 h=1 row=5 col=3"."""
    return " ".join(f"{axis}={number}" for axis, number in zip(spec.axes, at, strict=True))


def _first_wrong(relative: NDArray[np.float64], sample: Sample, spec: TensorSpec, *, limit: float) -> str:
    wrong = relative > limit
    at = int(wrong.argmax()) if wrong.any() else int(np.nan_to_num(relative, nan=np.inf).argmax())
    group, row, column = np.unravel_index(at, relative.shape)
    return f"{_place(sample, spec, (group, row))} {spec.axes[-1]}={column}"


def _place(sample: Sample, spec: TensorSpec, at: Sequence[np.intp | int]) -> str:
    group, row = int(sample.groups[at[0]]), int(sample.rows[at[1]])
    return " ".join(
        f"{axis}={number}" for axis, number in zip(spec.axes, (*_of_group(spec, group), row), strict=False)
    )


def _of_group(spec: TensorSpec, group: int) -> tuple[np.intp, ...]:
    """A group's place on each of the axes before the rows."""
    return tuple(np.unravel_index(group, spec.group_shape)) if spec.group_shape else ()


def describe_error(workload: Workload, expected: ExpectedOutputs, output: Output) -> tuple[str, str]:
    """The worst element with its value, and which rows and columns are wrong; `expected` is of every row.

    Of several outputs of rows, that of the first one that is wrong.
    """
    said = [_describe_wrong(workload, spec.name, expected, output) for spec in outputs_of(workload, "rows")]
    worst, extent, _ = next((entry for entry in said if entry[2]), said[0])
    return worst, extent


def _describe_wrong(
    workload: Workload, name: str, expected: ExpectedOutputs, output: Output
) -> tuple[str, str, int]:
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
