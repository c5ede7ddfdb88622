"""Is an output right? Gates against the fp64 reference; checks without one are in metamorphic.py. No GPU.

The thresholds, and what each is for (a calibration on real kernels justifies the values in thresholds.toml):
    non-finite   a NaN or infinity anywhere: a tile never written (outputs are poisoned with NaN), an overflow
    rel_l2       |out - ref| / |ref|, pooled over heads and over the trials of ordinary data
    honest       each trial: at most twice the error of plain careful arithmetic in the same precision
    max_over_rms the worst element, over the RMS of its own row: one wrong key in one row
    lse          |lse - ref| within absolute + relative |ref|, and -inf exactly where a row sees nothing (fp16
                 scores: or twice the worst error of honest arithmetic)
An absolute tolerance stands nowhere: at 4096 keys a zeroed output is within 5e-2 of the truth.

The worst element is measured against its row, not against the whole output: under a causal mask the first
rows are as large as V, the last ones small, and honest bf16 at S = 512 stands at 4.7e-2 of the global RMS.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evoflash.evaluation import Verdict
from evoflash.problem import Workload
from evoflash.validation.inputs import ORDINARY, Trial
from evoflash.validation.reference import Bits, Expected, Sample, decode, over_rms
from evoflash.validation.thresholds import Gates, gates_of


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """What a kernel wrote: O (batch, heads, seq_q, head_dim) as bits and LSE (batch, heads, seq_q)."""

    out: Bits
    lse: NDArray[np.float32] | None = None  # None where the kernel was asked for none


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What the gates need of an output: its rows at a sample, and whether all of it is finite."""

    out: Bits  # (heads, rows, head_dim)
    lse: NDArray[np.float32] | None  # (heads, rows)
    broken: str  # a NaN or infinity anywhere in the whole output, in words; else empty


Kernel = Callable[[Trial], Output]


@dataclass(frozen=True, slots=True)
class Errors:
    """How far one trial's output is from the reference; judge() holds it against the gates."""

    trial: str
    squared: float  # sum of squared errors
    reference_squared: float
    honest_squared: float
    max_over_rms: float
    honest_max_over_rms: float
    lse: float  # over what the LSE gate allows: up to 1 passes
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

    def honest_ratio(self, gates: Gates) -> float:
        """rel_l2 over that of an honest computation in the same precision."""
        # Where honest arithmetic is exact (one key, one dominating key) twice its error is nothing.
        return self.rel_l2 / max(self.honest_rel_l2, gates.honest_floor / gates.honest_factor)

    def max_over_rms_limit(self, gates: Gates) -> float:
        """What max_over_rms may be: data that is not ordinary may have rows whose values cancel."""
        if self.trial in ORDINARY:
            return gates.max_over_rms
        return max(gates.max_over_rms, gates.honest_factor * self.honest_max_over_rms)


def part_of(output: Output, sample: Sample, *, workload: Workload) -> Part:
    """An output at a sample, with a word on all of it."""
    at = np.ix_(sample.heads, sample.rows)
    return Part(
        out=output.out.reshape(-1, workload.seq_q, workload.head_dim)[at],
        lse=None if output.lse is None else output.lse.reshape(-1, workload.seq_q)[at],
        broken=_first_non_finite(output.out, workload),
    )


def judge(workload: Workload, results: Iterable[tuple[Trial, Expected, Output | Part]]) -> Verdict:
    """The verdict over the trials of a workload; its reason names the gate, the trial and the place.

    The first trial that fails is the last one looked at.
    """
    gates, errors, reason = gates_of(workload), [], ""
    for trial, expected, output in results:
        errors.append(measure(workload, trial, expected, output))
        if reason := _complaint(errors[-1], workload):
            break
    ordinary = [e for e in errors if e.trial in ORDINARY]
    pooled = _pooled(ordinary or errors)
    if not reason and ordinary and not pooled.rel_l2 <= gates.rel_l2:
        reason = f"rel_l2 {pooled.rel_l2:.2e} > {gates.rel_l2:.0e} pooled; worst {pooled.where}"
    return Verdict(
        workload=str(workload),
        passed=not reason,
        rel_l2=pooled.rel_l2,
        max_over_rms=max(e.max_over_rms for e in errors),
        lse_error=max(e.lse_error for e in errors),
        honest_ratio=max(e.honest_ratio(gates) for e in errors),
        reason=reason,
    )


def _pooled(errors: Sequence[Errors]) -> Errors:
    """The trials as one, by the place of the worst of them."""
    return replace(
        max(errors, key=lambda e: e.max_over_rms),
        squared=sum(e.squared for e in errors),
        reference_squared=sum(e.reference_squared for e in errors),
        honest_squared=sum(e.honest_squared for e in errors),
    )


def _complaint(errors: Errors, workload: Workload) -> str:
    gates = gates_of(workload)
    if errors.broken:
        return f"non-finite in {errors.trial}: {errors.broken}"
    ratio = errors.honest_ratio(gates)
    if not ratio <= gates.honest_factor:
        return (
            f"honest in {errors.trial}: rel_l2 {errors.rel_l2:.2e} is {ratio:.1f} times that of honest "
            f"{workload.precision} arithmetic; first wrong at {errors.where}"
        )
    limit = errors.max_over_rms_limit(gates)
    if not errors.max_over_rms <= limit:
        size = f"{errors.max_over_rms:.2e} > {limit:.0e}"
        return f"max_over_rms in {errors.trial}: {size}; first wrong at {errors.where}"
    if not errors.lse <= 1:
        return f"lse in {errors.trial}: off by {errors.lse_error:.2e} at {errors.lse_where}"
    return ""


def error_ratio(squared: float, reference_squared: float) -> float:
    """|error| / |reference| from their squares; nothing over nothing is 0."""
    if reference_squared == 0:
        return 0.0 if squared == 0 else float("inf")
    return float(np.sqrt(squared / reference_squared))


def measure(workload: Workload, trial: Trial, expected: Expected, output: Output | Part) -> Errors:
    """The errors of an output, at the rows that the reference knows; whether it is finite, everywhere."""
    part = output if isinstance(output, Part) else part_of(output, expected.sample, workload=workload)
    with np.errstate(invalid="ignore"):  # a signalling NaN in a wrong output
        error = np.abs(decode(part.out, workload.dtype) - expected.out)
    scale = expected.scale
    relative = over_rms(error, scale.rms)
    lse_error, lse_relative = _lse_errors(part, expected, workload)
    worst_lse = np.unravel_index(np.argmax(lse_relative), lse_relative.shape)
    return Errors(
        trial=trial.name,
        squared=float((error**2).sum()),
        reference_squared=scale.squared,
        honest_squared=scale.honest_squared,
        max_over_rms=float(relative.max()),
        honest_max_over_rms=scale.honest_max_over_rms,
        lse=float(lse_relative.max()),
        lse_error=float(lse_error[worst_lse]),
        broken=part.broken,
        where=_first_wrong(relative, expected, workload),
        lse_where=_place(workload, expected, worst_lse[0], worst_lse[1]),
    )


def _lse_errors(
    part: Part, expected: Expected, workload: Workload
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """|lse - ref|, and the same over what is allowed; both (heads, rows)."""
    if part.lse is None:
        return np.zeros_like(expected.lse), np.zeros_like(expected.lse)
    error = _distance(part.lse, expected.lse)
    gates = gates_of(workload)
    size = np.where(np.isfinite(expected.lse), np.abs(expected.lse), 0)
    allowed = gates.lse_absolute + gates.lse_relative * size
    if workload.accumulate == "fp16":
        allowed = np.maximum(
            allowed, gates.honest_factor * _distance(expected.honest_lse, expected.lse).max()
        )
    return error, error / allowed


def _distance(got: NDArray[np.float32], lse: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):
        error = np.where(got == lse, 0.0, np.abs(got - lse))
    return np.where(np.isfinite(error), error, np.inf)


def is_non_finite(bits: Bits, dtype: str) -> NDArray[np.bool_]:
    """Where 16-bit patterns are NaN or infinite: the exponent is all ones."""
    exponent = np.uint16(0x7C00 if dtype == "fp16" else 0x7F80)
    found: NDArray[np.bool_] = (bits & exponent) == exponent
    return found


def _first_non_finite(out: Bits, workload: Workload) -> str:
    bad = is_non_finite(out, workload.dtype)
    if not bad.any():
        return ""
    b, h, row, col = np.unravel_index(int(bad.argmax()), out.shape)
    return f"{int(bad.sum())} of {bad.size} elements, the first at b={b} h={h} row={row} col={col}"


def _first_wrong(relative: NDArray[np.float64], expected: Expected, workload: Workload) -> str:
    wrong = relative > gates_of(workload).max_over_rms
    at = int(wrong.argmax()) if wrong.any() else int(np.nan_to_num(relative, nan=np.inf).argmax())
    head, row, col = np.unravel_index(at, relative.shape)
    return f"{_place(workload, expected, head, row)} col={col}"


def _place(workload: Workload, expected: Expected, head: np.intp, row: np.intp) -> str:
    b, h = divmod(int(expected.sample.heads[head]), workload.heads)
    return f"b={b} h={h} row={int(expected.sample.rows[row])}"
