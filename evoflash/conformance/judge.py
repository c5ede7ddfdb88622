"""Judges results: equal bit for bit, or, for approximations, near the exact values. Runs nothing."""

from collections.abc import Mapping

import numpy as np

from evoflash.conformance.cases import Array, Bound, Kind, Outcome, Trial

Results = Mapping[str, Array]

# Exponents of all ones and a part of the mantissa: a NaN, by kind; both halves of a word for 16-bit floats.
_NAN = {"f16": (0x7C00, 0x03FF), "bf16": (0x7F80, 0x007F)}
_FLOAT_BITS = 24  # of a mantissa, the hidden one with it
_SMALLEST_NORMAL = 2.0**-126
_BEYOND = 2.0**32  # ulp: what is infinitely far


def compare(trial: Trial, *, emulated: Results, gpu: Results | None) -> list[Outcome]:
    """One outcome for each case; without a GPU's results, the emulator's against NumPy's alone."""
    if trial.bound is not None:
        return [_approximate(trial, trial.bound, emulated=emulated, gpu=gpu)]
    pairs = [("the emulator", emulated, "NumPy", trial.expected)]
    if gpu is not None:
        pairs.insert(0, ("the GPU", gpu, "the emulator", emulated))
    details = [[_differences(trial, number, *pair) for pair in pairs] for number in range(len(trial.cases))]
    return [
        Outcome(label, not any(found), "; ".join(filter(None, found)))
        for label, found in zip(trial.cases, details, strict=True)
    ]


def _differences(trial: Trial, number: int, who: str, found: Results, other: str, expected: Results) -> str:
    for name, values in expected.items():
        pair = [_part(trial, number, array) for array in (found[name], values)]
        got, wanted = (canonical(array, trial.kind).reshape(-1) for array in pair)
        wrong = np.flatnonzero(got != wanted)
        if wrong.size:
            at = int(wrong[0])
            return (
                f"{name}: {wrong.size} of {got.size} words differ, the first [{at}]: "
                f"{who} {got[at]:#010x}, {other} {wanted[at]:#010x}"
            )
    return ""


def _part(trial: Trial, number: int, array: Array) -> Array:
    return array if len(trial.cases) == 1 else array[number]


def canonical(words: Array, kind: Kind) -> Array:
    """The words with one bit pattern for all NaNs: PTX promises no payload."""
    bits = np.ascontiguousarray(words).view(np.uint32)
    if kind == "bits":
        return bits
    if kind == "f32":
        return np.where((bits & 0x7FFFFFFF) > 0x7F800000, np.uint32(0x7FFFFFFF), bits)
    exponent, mantissa = _NAN[kind]
    halves = bits.view(np.uint16)
    is_nan = ((halves & exponent) == exponent) & ((halves & mantissa) != 0)
    return np.where(is_nan, np.uint16(0x7FFF), halves).view(np.uint32)


# ---- approximations


def _approximate(trial: Trial, bound: Bound, *, emulated: Results, gpu: Results | None) -> Outcome:
    inputs = trial.inputs["a"].view(np.float32)
    with np.errstate(all="ignore"):
        exact = bound.exact(inputs.astype(np.float64))
    sides = {"emulator": emulated} | ({"gpu": gpu} if gpu is not None else {})
    worst, faults = {}, []
    for side, results in sides.items():
        errors = errors_ulp(results["out"].reshape(-1).view(np.float32), exact, inputs, bound)
        at = int(np.argmax(errors))
        worst[side] = round(min(float(errors[at]), _BEYOND), 4)
        if not errors[at] <= bound.ulp:
            got = results["out"].reshape(-1)[at]
            faults.append(
                f"{side}: {errors[at]:.3f} ulp at input {inputs[at]!r} "
                f"({np.uint32(got):#010x}, exact {exact[at]!r}); the bound is {bound.ulp}"
            )
    return Outcome(trial.cases[0], not faults, "; ".join(faults), worst)


def errors_ulp(found: Array, exact: Array, inputs: Array, bound: Bound) -> Array:
    """Distances in the bound's units (see Bound); infinite where one value is infinite or NaN and the other
    is not. What would be subnormal must be zero.
    """
    with np.errstate(all="ignore"):
        wanted = exact if bound.flat else exact.astype(np.float32).astype(np.float64)
        error = np.abs(found.astype(np.float64) - wanted)
        # A value next to the smallest normal float may have been rounded down before it was flushed.
        lost = np.maximum(np.abs(exact) - _SMALLEST_NORMAL, 0.0)
        distance = np.where(found == 0, lost, error) / _units(exact, inputs, bound)
        same = (found == exact) & (np.signbit(found) == np.signbit(exact))
        same |= np.isnan(found) & np.isnan(exact)
        same |= np.isinf(found) & (found == exact.astype(np.float32))  # beyond the largest float
    wrong_zero = (found == 0) & (np.signbit(found) != np.signbit(exact))
    not_flushed = (found != 0) & (np.abs(found) < _SMALLEST_NORMAL)
    comparable = np.isfinite(found) & np.isfinite(exact) & ~wrong_zero
    return np.where(same & ~not_flushed, 0.0, np.where(comparable & ~not_flushed, distance, np.inf))


def _units(exact: Array, inputs: Array, bound: Bound) -> Array:
    if bound.flat is not None:
        low, high = bound.flat
        flat = (inputs > low) & (inputs < high)
        return np.where(flat, 1.0, np.maximum(np.abs(exact), _SMALLEST_NORMAL)) * 2.0**-23
    _, exponent = np.frexp(np.where(np.isfinite(exact), exact, 1.0))
    last_place: Array = np.ldexp(1.0, np.maximum(exponent - _FLOAT_BITS, -149))
    return last_place
