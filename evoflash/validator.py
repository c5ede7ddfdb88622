"""Is an output right? Gates against the fp64 reference; checks without one are in metamorphic.py. No GPU.

The gates, and what each is for:
    non-finite   a NaN or infinity anywhere: a tile never written (outputs are poisoned with NaN), an overflow
    rel_l2       |out - ref| / |ref|, pooled over heads and over the trials of ordinary data
    honest       each trial: at most twice the error of plain careful arithmetic in the same precision
    max_over_rms the worst element, over the RMS of its own row: one wrong key in one row
    lse          |lse - ref| <= 1e-3 + 1e-5 |ref|, and -inf exactly where a row sees nothing (fp16 scores: or
                 twice the worst error of honest arithmetic)
An absolute tolerance stands nowhere: at 4096 keys a zeroed output is within 5e-2 of the truth.

The worst element is measured against its row, not against the whole output: under a causal mask the first
rows are as large as V, the last ones small, and honest bf16 at S = 512 stands at 4.7e-2 of the global RMS.
Against its own row honest arithmetic stayed below 1.8e-2 (bf16) and 1.8e-3 (fp16) on ordinary data, S = 64 to
1024, head_dim 64 and 128; outliers in V reach 2.5e-2 and 3.1e-3.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evoflash.evaluation import Verdict
from evoflash.problem import Workload
from evoflash.reference import Bits, Expected, Sample, decode, over_rms
from evoflash.trials import ORDINARY, Trial

# By Workload.precision. Scores summed in fp16 are an accuracy class of their own: honest arithmetic of that
# kind stands at 4.4e-4 to 8.9e-4 and up to 1.2e-2 of a row's RMS (normal data, S of 64 to 1024, D 64, 128).
REL_L2 = {"fp16": 4e-4, "bf16": 3e-3, "fp16-scores": 1.5e-3}
MAX_OVER_RMS = {"fp16": 5e-3, "bf16": 3e-2, "fp16-scores": 2e-2}
HONEST_FACTOR = 2.0
# Where honest arithmetic is exact (one key, one dominating key) twice its error is nothing: half the pooled
# gate, the error of rounding the output once, is always allowed.
HONEST_FLOOR = {precision: gate / 2 for precision, gate in REL_L2.items()}
LSE_ABSOLUTE, LSE_RELATIVE = 1e-3, 1e-5


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
class _Errors:
    """How far one trial's output is from the reference."""

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


def part_of(output: Output, sample: Sample, *, workload: Workload) -> Part:
    """An output at a sample, with a word on all of it."""
    at = np.ix_(sample.heads, sample.rows)
    return Part(
        out=output.out.reshape(-1, workload.seq_q, workload.head_dim)[at],
        lse=None if output.lse is None else output.lse.reshape(-1, workload.seq_q)[at],
        broken=_first_non_finite(output.out, workload),
    )


def judge(workload: Workload, results: Iterable[tuple[Trial, Expected, Output | Part]]) -> Verdict:
    """The verdict over all trials of a workload; its reason names the gate, the trial and the place."""
    errors = [_measure(workload, trial, expected, output) for trial, expected, output in results]
    ordinary = [e for e in errors if e.trial in ORDINARY] or errors
    pooled = error_ratio(sum(e.squared for e in ordinary), sum(e.reference_squared for e in ordinary))
    reason = next(filter(None, (_complaint(e, workload.precision) for e in errors)), "")
    if not reason and any(e.trial in ORDINARY for e in errors) and not pooled <= REL_L2[workload.precision]:
        reason = f"rel_l2 {pooled:.2e} > {REL_L2[workload.precision]:.0e} pooled; worst {ordinary[0].where}"
    return Verdict(
        workload=str(workload),
        passed=not reason,
        rel_l2=pooled,
        max_over_rms=max(e.max_over_rms for e in errors),
        lse_error=max(e.lse_error for e in errors),
        honest_ratio=max(_honest_ratio(e, workload.precision) for e in errors),
        reason=reason,
    )


def _complaint(errors: _Errors, precision: str) -> str:
    if errors.broken:
        return f"non-finite in {errors.trial}: {errors.broken}"
    ratio = _honest_ratio(errors, precision)
    if not ratio <= HONEST_FACTOR:
        return (
            f"honest in {errors.trial}: rel_l2 {errors.rel_l2:.2e} is {ratio:.1f} times that of honest "
            f"{precision} arithmetic; first wrong at {errors.where}"
        )
    limit = MAX_OVER_RMS[precision]
    if errors.trial not in ORDINARY:
        limit = max(limit, HONEST_FACTOR * errors.honest_max_over_rms)
    if not errors.max_over_rms <= limit:
        size = f"{errors.max_over_rms:.2e} > {limit:.0e}"
        return f"max_over_rms in {errors.trial}: {size}; first wrong at {errors.where}"
    if not errors.lse <= 1:
        return f"lse in {errors.trial}: off by {errors.lse_error:.2e} at {errors.lse_where}"
    return ""


def _honest_ratio(errors: _Errors, precision: str) -> float:
    return errors.rel_l2 / max(errors.honest_rel_l2, HONEST_FLOOR[precision] / HONEST_FACTOR)


def error_ratio(squared: float, reference_squared: float) -> float:
    """|error| / |reference| from their squares; nothing over nothing is 0."""
    if reference_squared == 0:
        return 0.0 if squared == 0 else float("inf")
    return float(np.sqrt(squared / reference_squared))


def _measure(workload: Workload, trial: Trial, expected: Expected, output: Output | Part) -> _Errors:
    part = output if isinstance(output, Part) else part_of(output, expected.sample, workload=workload)
    error = np.abs(decode(part.out, workload.dtype) - expected.out)
    scale = expected.scale
    relative = over_rms(error, scale.rms)
    lse_error, lse_relative = _lse_errors(part, expected, workload)
    worst_lse = np.unravel_index(np.argmax(lse_relative), lse_relative.shape)
    return _Errors(
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
    allowed = LSE_ABSOLUTE + LSE_RELATIVE * np.where(np.isfinite(expected.lse), np.abs(expected.lse), 0)
    if workload.accumulate == "fp16":
        allowed = np.maximum(allowed, HONEST_FACTOR * _distance(expected.honest_lse, expected.lse).max())
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
    wrong = relative > MAX_OVER_RMS[workload.precision]
    at = int(wrong.argmax()) if wrong.any() else int(np.nan_to_num(relative, nan=np.inf).argmax())
    head, row, col = np.unravel_index(at, relative.shape)
    return f"{_place(workload, expected, head, row)} col={col}"


def _place(workload: Workload, expected: Expected, head: np.intp, row: np.intp) -> str:
    b, h = divmod(int(expected.sample.heads[head]), workload.heads)
    return f"b={b} h={h} row={int(expected.sample.rows[row])}"
