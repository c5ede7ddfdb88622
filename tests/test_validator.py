"""The gates let honest kernels through and stop each mistake of evolution.md 3.2: kernels here are NumPy."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from evoflash import metamorphic
from evoflash.problem import Workload
from evoflash.reference import attention, decode, encode, every_row, expect
from evoflash.trials import ALL, Trial, draw
from evoflash.validator import Output, judge

LENGTHS = [64, 256, 1024]


def workload_of(length, *, dtype="fp16", causal=False):
    return Workload(1, 2, 1, length, length, 64, dtype, causal)


def tiled(trial, *, dtype="fp16", causal=False, tile=64, tau=0.0, fault=""):
    """Online softmax in fp32 over tiles of keys, P and O rounded to 16 bits, the maximum moved only when it
    grows by more than `tau`; `fault` names a mistake to make on purpose.
    """
    q, k, v = (decode(x, dtype) for x in (trial.q, trial.k, trial.v))
    k, v = (np.repeat(x, q.shape[1] // k.shape[1], axis=1) for x in (k, v))
    scale = 0.125 * (1.01 if fault == "scale off by 1 %" else 1)
    rows, keys = q.shape[2], k.shape[2]
    seen = np.arange(rows)[:, None] + 1 + keys - rows if causal else np.full((rows, 1), keys)
    seen = seen + {"causal off by one": 1, "causal loses the diagonal": -1}.get(fault, 0)
    top = np.full((*q.shape[:3], 1), 0.0 if fault == "no maximum subtracted" else -np.inf, np.float32)
    total, out = np.zeros_like(top), np.zeros_like(q)
    last = keys - 1 if fault == "last key dropped" else keys
    for start in range(0, last, tile):
        stop = min(start + tile, last)
        if fault == "second tile dropped" and start == tile:
            continue
        scores = np.float32(scale) * (q @ k[:, :, start:stop].swapaxes(-1, -2))
        scores = np.where(np.arange(start, stop) < seen, scores, -np.inf).astype(np.float32)
        peak = np.maximum(top, scores.max(-1, keepdims=True))
        rises = np.where(np.isfinite(top), peak - np.where(np.isfinite(top), top, 0) > tau, True)
        moves = rises & (fault != "no maximum subtracted")
        new = np.where(moves, peak, top)
        base = np.where(np.isfinite(new), new, 0)
        fade = np.where(np.isfinite(top), np.exp(top - base), 0)
        weights = np.exp(scores - base)
        total = total * fade + weights.sum(-1, keepdims=True)
        if fault == "P with 3 mantissa bits":
            mantissa, exponent = np.frexp(weights)
            weights = np.ldexp(np.round(mantissa * 16) / 16, exponent)
        fade = 1 if fault == "output not rescaled" else fade
        out = out * fade + decode(encode(weights, dtype), dtype) @ v[:, :, start:stop]
        top = new
    divisor = np.where(total > 0, total, 1)
    with np.errstate(divide="ignore"):
        lse = (np.where(np.isfinite(top), top, 0) + np.log(total))[..., 0]
    return Output(encode(out / divisor, dtype), lse.astype(np.float32))


def answer(kernel, workload, names=ALL, seed=11):
    def results():
        for name in names:
            trial = draw(name, workload, seed=seed)
            with np.errstate(over="ignore", invalid="ignore"):
                output = kernel(trial)
            yield trial, expect(workload, trial.q, trial.k, trial.v, where=every_row(workload)), output

    return judge(workload, results())


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [64, 512])
def test_an_honest_tiled_kernel_passes_every_trial(length, causal, dtype):
    verdict = answer(
        partial(tiled, dtype=dtype, causal=causal), workload_of(length, dtype=dtype, causal=causal)
    )
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_an_honest_lazily_rescaling_kernel_passes_every_trial(dtype):
    kernel = partial(tiled, dtype=dtype, tau=8 * np.log(2), tile=32)
    verdict = answer(kernel, workload_of(1024, dtype=dtype))
    assert verdict.passed, verdict.reason


def test_an_honest_kernel_passes_where_rows_see_nothing():
    workload = Workload(1, 2, 2, 70, 33, 64, "fp16", causal=True)
    verdict = answer(partial(tiled, causal=True), workload)
    assert verdict.passed, verdict.reason


FAULTS = [
    "last key dropped",
    "second tile dropped",
    "scale off by 1 %",
    "no maximum subtracted",
    "P with 3 mantissa bits",
    "output not rescaled",
]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_kernel_fails(fault, length):
    names = ("normal", "needles", "rising", "large_logits")
    assert not answer(partial(tiled, fault=fault, tile=32), workload_of(length), names).passed


@pytest.mark.parametrize("fault", ["causal off by one", "causal loses the diagonal"])
@pytest.mark.parametrize("length", LENGTHS)
def test_a_causal_mask_off_by_one_fails(fault, length):
    verdict = answer(partial(tiled, causal=True, fault=fault), workload_of(length, causal=True), ("needles",))
    assert not verdict.passed


@pytest.mark.parametrize("length", LENGTHS)
def test_zeros_fail(length):
    def zeros(trial):
        return Output(np.zeros_like(trial.q), tiled(trial).lse)

    verdict = answer(zeros, workload_of(length), ("normal",))
    assert "honest" in verdict.reason


def test_one_nan_fails_and_is_found():
    def nan(trial):
        output = tiled(trial)
        output.out[0, 1, 37, 5] = 0x7E00
        return output

    verdict = answer(nan, workload_of(64), ("normal",))
    assert "b=0 h=1 row=37 col=5" in verdict.reason
    assert verdict.reason.startswith("non-finite in normal")


def test_one_wrong_row_among_thousands_fails_and_is_found():
    """Six per mille in one row of 2048 is below every pooled gate; the row's own RMS shows it."""

    def one_row(trial):
        output = tiled(trial)
        row = decode(output.out[0, 1, 700], "fp16")
        output.out[0, 1, 700] = encode(row * 1.006, "fp16")
        return output

    verdict = answer(one_row, workload_of(1024), ("normal",))
    assert "max_over_rms in normal" in verdict.reason
    assert "b=0 h=1 row=700" in verdict.reason


def test_a_wrong_lse_fails_though_the_output_is_right():
    def base_two(trial):
        output = tiled(trial)
        return Output(output.out, output.lse * np.float32(np.log2(np.e)))

    assert answer(base_two, workload_of(64), ("normal",)).reason.startswith("lse in normal")


def test_a_row_that_sees_nothing_must_be_zero():
    workload = Workload(1, 1, 1, 40, 8, 64, "fp16", causal=True)

    def leftover(trial):
        output = tiled(trial, causal=True)
        output.out[0, 0, 3] = encode(np.full(64, 1e-6, np.float32), "fp16")
        return output

    verdict = answer(leftover, workload, ("normal",))
    assert "row=3" in verdict.reason


def test_the_reference_itself_passes_with_room():
    workload = workload_of(256, dtype="bf16", causal=True)

    def exact(trial):
        q, k, v = (decode(x, "bf16") for x in (trial.q, trial.k, trial.v))
        out, lse = attention(q, k, v, causal=True, scale=0.125)
        return Output(encode(out.astype(np.float32), "bf16"), lse.astype(np.float32))

    assert answer(exact, workload).honest_ratio <= 1.05


def test_a_kernel_that_hides_the_future_says_nothing():
    workload = workload_of(130, causal=True)
    trial = draw("normal", workload, seed=2)
    assert metamorphic.hides_the_future(partial(tiled, causal=True), trial, workload=workload) == ""


@pytest.mark.parametrize("fault", ["causal off by one", "causal loses the diagonal"])
def test_causal_differences_catch_a_mask_off_by_one(fault):
    workload = workload_of(130, causal=True)
    trial = draw("normal", workload, seed=2)
    assert metamorphic.hides_the_future(partial(tiled, causal=True, fault=fault), trial, workload=workload)


def test_order_and_copies_of_keys_do_not_matter_to_a_right_kernel():
    workload, rng = workload_of(128), np.random.default_rng(0)
    trial = draw("normal", workload, seed=2)
    assert metamorphic.ignores_order(tiled, trial, workload=workload, rng=rng) == ""
    assert metamorphic.ignores_copies(tiled, trial, workload=workload) == ""


@pytest.mark.parametrize("fault", ["last key dropped", "second tile dropped"])
def test_permuting_keys_catches_a_kernel_that_drops_some(fault):
    workload, rng = workload_of(128), np.random.default_rng(0)
    trial = draw("normal", workload, seed=2)
    assert metamorphic.ignores_order(partial(tiled, fault=fault), trial, workload=workload, rng=rng)


def test_a_racing_kernel_does_not_repeat():
    rng = np.random.default_rng(0)

    def racing(trial):
        output = tiled(trial)
        output.out[0, 0, int(rng.integers(64))] ^= 1
        return output

    trial: Trial = draw("normal", workload_of(64), seed=2)
    assert metamorphic.repeats(tiled, trial) == ""
    assert "two runs" in metamorphic.repeats(racing, trial)


@pytest.mark.parametrize("name", ALL)
def test_scores_summed_in_fp16_pass_their_own_gates_and_only_those(name):
    apart = Workload(1, 2, 1, 60, 200, 128, "fp16", False, "fp16")
    trial = draw(name, apart, seed=3)
    expected = expect(apart, trial.q, trial.k, trial.v, where=every_row(apart))
    output = Output(
        encode(expected.honest, "fp16").reshape(1, 2, 60, 128), expected.honest_lse.reshape(1, 2, 60)
    )

    assert judge(apart, [(trial, expected, output)]).passed
    if name == "normal":
        strict = replace(apart, accumulate="fp32")
        exact = expect(strict, trial.q, trial.k, trial.v, where=every_row(strict))
        assert not judge(strict, [(trial, exact, output)]).passed
