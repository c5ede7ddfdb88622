"""The gates let honest kernels through and stop each mistake of evolution.md 3.2: kernels here are NumPy."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from tables import data
from tiled_kernel import tiled

from evoflash.numerics import decode, encode
from evoflash.operations.attention.forms import dense
from evoflash.operations.attention.inputs import ALL, draw
from evoflash.operations.attention.reference import attention, expect, sample
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.operations.expectations import every_row, thresholds_of
from evoflash.validation.validator import judge, part_of

LENGTHS = [64, 256, 1024]


def workload_of(length, *, dtype="fp16", causal=False):
    return AttentionWorkload(1, 2, 1, length, length, 64, dtype, causal)


def answer(kernel, workload, names=ALL, seed=11):
    def results():
        for name in names:
            trial = draw(name, workload, seed=seed)
            with np.errstate(over="ignore", invalid="ignore"):
                output = kernel(trial)
            yield trial, expect(workload, trial, where=every_row(workload)), output

    return judge(workload, results())


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [64, 512])
@pytest.mark.sample(2)
def test_an_honest_tiled_kernel_passes_every_trial(length, causal, dtype):
    verdict = answer(
        partial(tiled, dtype=dtype, causal=causal), workload_of(length, dtype=dtype, causal=causal)
    )
    assert verdict.passed, verdict.reason


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.sample(1)
@pytest.mark.full
def test_an_honest_lazily_rescaling_kernel_passes_every_trial(dtype):
    kernel = partial(tiled, dtype=dtype, tau=8 * np.log(2), tile=32)
    verdict = answer(kernel, workload_of(1024, dtype=dtype))
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize("name", ["needles", "spikes", "outliers", "ties", "sink"])
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_an_honest_kernel_that_samples_its_maximum_passes(name, dtype):
    """P of a dominating key that the sample missed is rounded, and its share of the sum is not."""
    workload = AttentionWorkload(2, 4, 2, 113, 203, 64, dtype)

    def guarded(trial):  # as flash_mma: where P outgrows 16 bits the block is done again, exactly
        output = tiled(trial, dtype=dtype, sampled=True)
        finite = np.isfinite(decode(output.tensors["O"], dtype)).all()
        return output if finite else tiled(trial, dtype=dtype)

    verdict = answer(guarded, workload, (name,))
    assert verdict.passed, verdict.reason


def test_a_lagging_maximum_is_what_the_room_for_it_is_for():
    """By the error of a maximum that does not lag alone, some honest kernels would be rejected; none is."""
    workload = AttentionWorkload(1, 2, 1, 3, 40, 64, "bf16")
    over_plain = []
    for seed in range(40):
        trial = draw("needles", workload, seed=seed)
        expected = expect(workload, trial, where=every_row(workload))
        output = tiled(trial, dtype="bf16", sampled=True)
        assert judge(workload, [(trial, expected, output)]).honest_ratio < 1.5
        error = np.linalg.norm(
            decode(output.tensors["O"], "bf16").reshape(2, 3, 64) - expected.rows["O"].right
        )
        plain = np.linalg.norm(expected.rows["O"].honest - expected.rows["O"].right)
        floor = thresholds_of(workload).honest_floor * np.linalg.norm(expected.rows["O"].right)
        over_plain.append(error > max(2 * plain, floor))
    assert any(over_plain)


def test_a_few_rows_may_be_as_far_off_as_honest_arithmetic_is():
    workload, above = AttentionWorkload(1, 1, 1, 1, 24, 64, "fp16"), 0
    for seed in range(150):
        verdict = answer(partial(tiled, tau=4 * np.log(2), tile=8), workload, ("normal",), seed)
        assert verdict.passed, verdict.reason
        above += verdict.rel_l2 > thresholds_of(workload).rel_l2
    assert above, "no kernel needs the room"


def test_an_honest_kernel_passes_where_rows_see_nothing():
    workload = AttentionWorkload(1, 2, 2, 70, 33, 64, "fp16", causal=True)
    verdict = answer(partial(tiled, causal=True), workload)
    assert verdict.passed, verdict.reason


FAULTS = data(__file__, "FAULTS")


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
        return dense.output(np.zeros_like(trial.q), tiled(trial).tensors["LSE"])

    verdict = answer(zeros, workload_of(length), ("normal",))
    assert "honest" in verdict.reason


def test_one_nan_fails_and_is_found():
    def nan(trial):
        output = tiled(trial)
        output.tensors["O"][0, 1, 37, 5] = 0x7E00
        return output

    verdict = answer(nan, workload_of(64), ("normal",))
    assert "b=0 h=1 row=37 col=5" in verdict.reason
    assert verdict.reason.startswith("non-finite in normal")


def test_one_wrong_row_among_thousands_fails_and_is_found():
    """Six per mille in one row of 2048 is below every pooled gate; the row's own RMS shows it."""

    def one_row(trial):
        output = tiled(trial)
        row = decode(output.tensors["O"][0, 1, 700], "fp16")
        output.tensors["O"][0, 1, 700] = encode(row * 1.006, "fp16")
        return output

    verdict = answer(one_row, workload_of(1024), ("normal",))
    assert "max_over_rms in normal" in verdict.reason
    assert "b=0 h=1 row=700" in verdict.reason


def test_a_wrong_lse_fails_though_the_output_is_right():
    def base_two(trial):
        output = tiled(trial)
        return dense.output(output.tensors["O"], output.tensors["LSE"] * np.float32(np.log2(np.e)))

    assert answer(base_two, workload_of(64), ("normal",)).reason.startswith("lse in normal")


def test_a_row_that_sees_nothing_must_be_zero():
    workload = AttentionWorkload(1, 1, 1, 40, 8, 64, "fp16", causal=True)

    def leftover(trial):
        output = tiled(trial, causal=True)
        output.tensors["O"][0, 0, 3] = encode(np.full(64, 1e-6, np.float32), "fp16")
        return output

    verdict = answer(leftover, workload, ("normal",))
    assert "row=3" in verdict.reason


def test_the_reference_itself_passes_with_room():
    workload = workload_of(256, dtype="bf16", causal=True)

    def exact(trial):
        q, k, v = (decode(x, "bf16") for x in (trial.q, trial.k, trial.v))
        out, lse = attention(q, k, v, causal=True, scale=0.125)
        return dense.output(encode(out.astype(np.float32), "bf16"), lse.astype(np.float32))

    assert answer(exact, workload).honest_ratio <= 1.05


@pytest.mark.parametrize("name", ALL)
def test_scores_summed_in_fp16_pass_their_own_gates_and_only_those(name):
    apart = AttentionWorkload(1, 2, 1, 60, 200, 128, "fp16", False, "fp16")
    trial = draw(name, apart, seed=3)
    expected = expect(apart, trial, where=every_row(apart))
    output = dense.output(
        encode(expected.rows["O"].honest, "fp16").reshape(1, 2, 60, 128),
        expected.numbers["LSE"].honest.reshape(1, 2, 60),
    )

    assert judge(apart, [(trial, expected, output)]).passed
    if name == "normal":
        strict = replace(apart, accumulate="fp32")
        exact = expect(strict, trial, where=every_row(strict))
        assert not judge(strict, [(trial, exact, output)]).passed


def test_a_part_of_an_output_is_judged_as_the_whole():
    workload = AttentionWorkload(1, 16, 4, 1100, 1100, 64)
    trial = draw("normal", workload, seed=1)
    where = sample(workload, np.random.default_rng(1))
    assert len(where.groups) < workload.heads
    expected = expect(workload, trial, where=where)
    whole = dense.output(np.zeros_like(trial.q), np.zeros((1, 16, 1100), np.float32))
    at = np.ix_([0], where.groups, where.rows)
    whole.tensors["O"][at] = encode(expected.rows["O"].right[None] * 1.002, "fp16")
    whole.tensors["LSE"][at] = expected.numbers["LSE"].right
    part = part_of(whole, where, workload=workload)
    verdict = judge(workload, [(trial, expected, part)])
    assert verdict == judge(workload, [(trial, expected, whole)])
    assert "rel_l2" in verdict.reason
    assert decode(part.tensors["O"], "fp16").shape == expected.rows["O"].right.shape


def test_a_nan_outside_the_sample_fails_the_part_too():
    workload = AttentionWorkload(1, 16, 4, 1100, 1100, 64)
    trial = draw("normal", workload, seed=1)
    where = sample(workload, np.random.default_rng(1))
    expected = expect(workload, trial, where=where)
    outside = next(head for head in range(16) if head not in where.groups)
    whole = dense.output(np.zeros_like(trial.q), np.zeros((1, 16, 1100), np.float32))
    whole.tensors["O"][0, outside, 7, 3] = 0x7E00
    verdict = judge(workload, [(trial, expected, part_of(whole, where, workload=workload))])
    assert f"h={outside} row=7 col=3" in verdict.reason
