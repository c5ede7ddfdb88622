"""The reference against textbook arithmetic, and 16-bit rounding against NumPy's own."""

import math
from dataclasses import replace

import numpy as np
import pytest

from evoflash.numerics import decode, encode
from evoflash.operations.attention.inputs import ALL, draw
from evoflash.operations.attention.reference import attention, expect, honest, sample
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.operations.expectations import every_row

SMALL = AttentionWorkload(batch=2, heads=4, kv_heads=2, seq_q=7, seq_kv=12, head_dim=64)


def textbook(q, k, v, visible, scale):
    """One row at a time with Python's own loops over keys: shares the definition alone."""
    out = np.zeros_like(q)
    lse = np.full(q.shape[:-1], -np.inf)
    ratio = q.shape[1] // k.shape[1]
    for b, h, i in np.ndindex(q.shape[:3]):
        scores = [scale * math.fsum(q[b, h, i] * k[b, h // ratio, j]) for j in range(visible(i))]
        if scores:
            lse[b, h, i] = math.log(math.fsum(math.exp(s) for s in scores))
            for j, s in enumerate(scores):
                out[b, h, i] += math.exp(s - lse[b, h, i]) * v[b, h // ratio, j]
    return out, lse


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("seq_q", [7, 12, 20])
def test_attention_is_the_textbook_formula(causal, seq_q):
    rng = np.random.default_rng(0)
    q = rng.standard_normal((2, 4, seq_q, 8))
    k, v = rng.standard_normal((2, 2, 2, 12, 8))
    out, lse = attention(q, k, v, causal=causal, scale=0.3)
    want, want_lse = textbook(q, k, v, lambda i: max(0, i + 1 + 12 - seq_q) if causal else 12, 0.3)
    np.testing.assert_allclose(out, want, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(lse, want_lse, rtol=1e-12)


def test_a_row_that_sees_nothing_gives_zero_and_minus_infinity():
    q, k, v = np.ones((1, 1, 5, 4)), np.ones((1, 1, 2, 4)), np.ones((1, 1, 2, 4))
    out, lse = attention(q, k, v, causal=True, scale=1.0)
    assert (out[0, 0, :3] == 0).all()
    assert (lse[0, 0, :3] == -np.inf).all()
    assert np.isfinite(lse[0, 0, 3:]).all()


def test_scores_in_the_hundreds_do_not_overflow():
    q = np.full((1, 1, 1, 4), 400.0)
    k = np.stack([np.full((1, 1, 4), 1.0), np.full((1, 1, 4), 0.99)], axis=2)
    out, lse = attention(q, k, np.array([1.0, 3.0]).reshape(1, 1, 2, 1), causal=False, scale=1.0)
    assert lse[0, 0, 0] == pytest.approx(1600 + math.log1p(math.exp(-16)))
    assert out[0, 0, 0, 0] == pytest.approx(1 + 2 / (1 + math.exp(16)))


def test_every_bf16_pattern_survives_decode_and_encode():
    bits = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    values = decode(bits, "bf16")
    back = encode(values, "bf16")
    assert (back[~np.isnan(values)] == bits[~np.isnan(values)]).all()
    assert np.isnan(decode(back[np.isnan(values)], "bf16")).all()


def test_bf16_rounds_to_nearest_even():
    ulp = 2.0**-7  # of bf16 at 1
    halves = np.array(
        [1 + ulp / 2, 1 + 3 * ulp / 2, 1 + 0.51 * ulp, 1 + 0.49 * ulp, -1 - ulp / 2], np.float32
    )
    assert decode(encode(halves, "bf16"), "bf16").tolist() == [1, 1 + 2 * ulp, 1 + ulp, 1, -1]


def test_fp16_rounds_to_nearest_even_and_overflows_to_infinity():
    values = np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11, 65519, 65520, 2.0**-25, -np.inf], np.float32)
    want = [1, 1 + 2.0**-9, 65504, np.inf, 0, -np.inf]
    assert decode(encode(values, "fp16"), "fp16").tolist() == want


@pytest.mark.parametrize(("dtype", "low", "high"), [("fp16", 2e-4, 4e-4), ("bf16", 1.6e-3, 3e-3)])
def test_honest_arithmetic_errs_as_much_as_its_precision_says(dtype, low, high):
    workload = replace(SMALL, seq_q=128, seq_kv=256, dtype=dtype)
    trial = draw("normal", workload, seed=3)
    q, k, v = (decode(x, dtype) for x in (trial.q, trial.k, trial.v))
    exact, _ = attention(q, k, v, causal=False, scale=0.125)
    error = honest(q, k, v, causal=False, scale=0.125, dtype=dtype) - exact
    assert low < np.linalg.norm(error) / np.linalg.norm(exact) < high


def test_a_sample_holds_the_same_numbers_as_the_whole():
    workload = replace(SMALL, seq_q=40, seq_kv=72, causal=True)
    trial = draw("normal", workload, seed=5)
    everything = every_row(workload)
    whole = expect(workload, trial, where=everything)
    part = replace(everything, groups=np.array([1, 6]), rows=np.array([0, 17, 39]))
    some = expect(workload, trial, where=part)
    np.testing.assert_allclose(
        some.rows["O"].right, whole.rows["O"].right[np.ix_(part.groups, part.rows)], rtol=1e-12, atol=1e-15
    )
    np.testing.assert_allclose(
        some.numbers["LSE"].right, whole.numbers["LSE"].right[np.ix_(part.groups, part.rows)], rtol=1e-12
    )


def test_a_large_workload_is_sampled_at_its_ends_and_tile_edges():
    workload = AttentionWorkload(batch=2, heads=32, kv_heads=8, seq_q=8190, seq_kv=8192, head_dim=128)
    where = sample(workload, np.random.default_rng(1))
    ends = {0, 15, 16, 17, 63, 64, 65, 127, 128, 129, 8063, 8064, 8065, 8127, 8128, 8175, 8176, 8177, 8189}
    assert ends <= set(where.rows.tolist())
    assert {0, 63} <= set(where.groups.tolist())
    assert len(where.groups) * len(where.rows) * workload.seq_kv < 1 << 25
    assert where.rows.max() < workload.seq_q


def test_trials_repeat_by_seed_and_differ_between_seeds():
    first, again, other = (draw("needles", SMALL, seed=seed) for seed in (1, 1, 2))
    assert (first.q == again.q).all()
    assert not (first.q == other.q).all()


@pytest.mark.parametrize("name", ALL)
def test_every_trial_is_finite_and_of_the_workloads_shape(name):
    for workload in (SMALL, replace(SMALL, seq_q=33, seq_kv=17, causal=True, dtype="bf16")):
        trial = draw(name, workload, seed=1)
        assert trial.q.shape == (2, 4, workload.seq_q, 64)
        assert trial.k.shape == trial.v.shape == (2, 2, workload.seq_kv, 64)
        assert all(np.isfinite(decode(x, workload.dtype)).all() for x in (trial.q, trial.k, trial.v))
