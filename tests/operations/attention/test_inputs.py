"""Each kind of input does to a kernel what its name says."""

import numpy as np
import pytest

from evoflash.numerics import decode
from evoflash.operations.attention.inputs import ALL, NAMES, draw
from evoflash.operations.attention.reference import attention, expect
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.operations.expectations import every_row

FULL = AttentionWorkload(2, 4, 2, 40, 300, 64)
BF16 = AttentionWorkload(2, 4, 2, 40, 300, 64, "bf16")


def scores(name, workload=FULL):
    """Scaled scores (batch, heads, seq_q, seq_kv), and the trial."""
    trial = draw(name, workload, seed=7)
    q, k = (decode(x, workload.dtype).astype(np.float64) for x in (trial.q, trial.k))
    keys = np.repeat(k, workload.gqa_ratio, axis=1)
    return q @ keys.swapaxes(-1, -2) / workload.head_dim**0.5, trial


@pytest.mark.parametrize("workload", [FULL, BF16])
def test_ties_are_exact_maxima_in_several_tiles(workload):
    found, _ = scores("ties", workload)
    tied = found == found.max(axis=-1, keepdims=True)
    assert (tied.sum(axis=-1) == 12).all()
    assert set(np.flatnonzero(tied[0, 0, 0]) // 64) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("length", [2, 300, 4000])
def test_the_sink_holds_most_of_the_weight_but_not_all(length):
    found, _ = scores("sink", AttentionWorkload(1, 2, 1, 40, length, 64))
    weights = np.exp(found - found.max(axis=-1, keepdims=True))
    share = (weights / weights.sum(axis=-1, keepdims=True))[..., 0]
    assert 0.5 < np.median(share) < 0.99


def test_without_queries_the_lse_is_the_logarithm_of_the_number_of_keys():
    trial = draw("zero_queries", FULL, seed=7)
    expected = expect(FULL, trial, where=every_row(FULL))
    np.testing.assert_allclose(expected.numbers["LSE"].right, np.log(300))


def test_constant_rows_hold_one_number_each():
    trial = draw("constant_rows", FULL, seed=7)
    for bits in (trial.q, trial.k, trial.v):
        assert (bits == bits[..., :1]).all()
        assert len(np.unique(bits[..., 0])) > 30


@pytest.mark.parametrize(("workload", "largest"), [(FULL, 6e4), (BF16, 1e33)])
def test_large_values_are_near_what_can_be_held(workload, largest):
    trial = draw("large_values", workload, seed=7)
    q, k, v = (decode(x, workload.dtype) for x in (trial.q, trial.k, trial.v))
    assert np.abs(v).max() >= largest
    out, _ = attention(q, k, v, causal=False, scale=0.125)
    assert np.isfinite(out.astype(np.float32)).all()


def test_large_logits_and_spikes_overflow_what_is_not_shifted():
    for name in ("large_logits", "spikes", "saturated"):
        found, _ = scores(name)
        assert (found.max(axis=-1) > 89).mean() > 0.2  # exp of it overflows fp32


def test_the_maximum_rises_and_falls_all_the_way():
    rising, falling = scores("rising")[0], scores("falling")[0]
    peaks = [x.reshape(*x.shape[:3], 6, 50).max(axis=-1) for x in (rising, falling)]
    assert (np.diff(peaks[0], axis=-1) > 0).mean() > 0.99
    assert (np.diff(peaks[1], axis=-1) < 0).mean() > 0.99


def test_needles_point_at_tile_edges():
    found, _ = scores("needles")
    targets = found.argmax(axis=-1).reshape(-1).tolist()
    assert all(at % 16 in (0, 1, 15) or at == 299 for at in targets)
    assert len(set(targets)) > 30


@pytest.mark.parametrize("seed", range(5))
def test_a_needle_points_at_the_last_key_however_few_the_rows_are(seed):
    trial = draw("needles", AttentionWorkload(1, 1, 1, 9, 1000, 64), seed=seed)
    q, k = (decode(x, "fp16").astype(np.float64) for x in (trial.q, trial.k))
    targets = (q @ k.swapaxes(-1, -2)).argmax(axis=-1).ravel().tolist()
    assert 999 in targets
    assert max(sorted(targets)[:-1]) > 500  # not the first edges alone


@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("name", ["spikes", "lone_spikes"])
def test_without_its_key_the_maximum_of_a_spiked_row_lets_fp32_overflow(name, head_dim):
    found, _ = scores(name, AttentionWorkload(8, 4, 4, 33, 300, head_dim))
    ranked = np.sort(found, axis=-1)
    above = (ranked[..., -1] - ranked[..., -2]).reshape(32, 33).max(axis=-1)
    assert (above > 89).mean() > 0.7


@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_a_hidden_key_weighs_e_to_the_4_or_more_and_less_than_lets_p_overflow(head_dim):
    causal = AttentionWorkload(1, 4, 2, 66, 300, head_dim, causal=True)
    for workload in (causal, AttentionWorkload(1, 4, 2, 66, 300, head_dim)):
        found, _ = scores("heavy_hidden", workload)
        first = np.arange(66) + 300 - 66 + 1 if workload.causal else np.full(66, 300)
        visible = np.where(np.arange(300) < first[:, None], found, np.nan)
        typical, best = np.nanmedian(visible, axis=-1), np.nanmax(visible, axis=-1)
        # Past the last key stand zeros, whose score is 0.
        hidden = np.stack(
            [found[:, :, row, first[row]] if first[row] < 300 else 0 * best[:, :, row] for row in range(66)],
            axis=-1,
        )
        assert (hidden - typical > 4).all()
        assert (hidden - best < 8).all()
        assert (best < 0).all()


def test_pooled_errors_are_of_ordinary_data_alone():
    assert set(ALL) >= {"normal", "normal-again"}
    for name in NAMES.ordinary:
        found, _ = scores(name)
        assert 0.9 < found.std() < 1.1


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_small_weights_make_all_of_the_output(dtype):
    workload = AttentionWorkload(2, 2, 2, 3, 300, 64, dtype)
    trial = draw("small_weights", workload, seed=1)
    where = every_row(workload)
    right = expect(workload, trial, where=where).rows["O"].right

    heavy = [int((trial.v[at] == 0).all(axis=-1).argmax()) for at in np.ndindex(2, 2)]
    assert heavy == [0, 299, 0, 299]
    assert (np.abs(right).max(axis=(1, 2)) < 300 * 2.0**-12).all()
    assert (np.abs(right).max(axis=(1, 2)) > 0).all()


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_maxima_grow_by_levels_about_what_a_type_holds(dtype):
    workload = AttentionWorkload(8, 1, 1, 2, 100, 64, dtype)
    trial = draw("growth", workload, seed=1)
    q, k = (decode(x, dtype).astype(np.float64) for x in (trial.q, trial.k))
    scores = np.einsum("bhqd,bhkd->bhqk", q, k)[:, 0, 0] / 8 / np.log(2)

    wanted = {"fp16": [13, 15.9998, 20, 126.5], "bf16": [16.3, 80, 118, 126.5]}[dtype]
    for keys in (97, 98):  # every level at both of two neighbours
        levels = np.sort(scores[scores.argmax(axis=1) == keys].max(axis=1))
        assert (np.abs(levels - wanted) < {"fp16": 1e-3, "bf16": 1e-2}[dtype]).all()
    # A power of two that fp16 rounds to infinity, though less than 2^16.
    with np.errstate(over="ignore"):
        assert dtype == "bf16" or np.isinf(np.float16(2 ** np.sort(scores.max(axis=1))[2]))


def test_values_and_scores_reach_the_ends_of_what_types_hold():
    for dtype in ("fp16", "bf16"):
        workload = AttentionWorkload(1, 2, 2, 9, 40, 64, dtype)
        low = draw("low_scores", workload, seed=1)
        q, k = decode(low.q, dtype).astype(np.float64), decode(low.k, dtype).astype(np.float64)
        assert (np.einsum("bhqd,bhkd->bhqk", q, k) < -50000).all()
        assert np.abs(decode(draw("tiny_values", workload, seed=1).v, dtype)).max() < 2.0**-14
        huge = decode(draw("huge_values", workload, seed=1).v, dtype)
        assert (huge > (63000 if dtype == "fp16" else 2.0**118)).all()


def test_of_all_rows_one_alone_near_the_end_has_a_spike():
    workload = AttentionWorkload(2, 3, 3, 20, 70, 64)
    trial = draw("last_spike", workload, seed=1)
    size = np.abs(decode(trial.q, "fp16")).max(axis=-1)
    assert np.argwhere(size > 20).tolist() == [[1, 2, 16]]
