"""The dispatcher that exported packages carry: the same answer always, whatever was asked before."""

import random
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoflash.runtime import dispatch
from evoflash.runtime.dispatch import FALLBACK, Dispatcher, corner

RULE = {
    "version": 1,
    "reach": 2.0,
    "keys": [
        {
            "head_dim": 128,
            "dtype": "bf16",
            "causal": causal,
            "gqa_ratio": 4,
            "points": [[32, 512, 512, 0], [32, 4096, 4096, 1], [32, 512, 8192, 2]]
            if causal
            else [[32, 1, 8192, 2], [256, 1, 2048, 3]],
        }
        for causal in (True, False)
    ],
}
SIZES = st.integers(1, 1 << 17)
SHAPES = st.tuples(st.integers(1, 64), st.just(32), st.just(8), SIZES, SIZES)


def asked(*shape, causal=True, dispatcher=None):
    return (dispatcher or Dispatcher(RULE)).kernel(128, "bf16", causal, shape)


def test_a_measured_shape_gets_its_kernel():
    assert asked(1, 32, 8, 512, 512) == 0
    assert asked(1, 32, 8, 4096, 4096) == 1
    assert asked(1, 32, 8, 512, 8192) == 2
    assert asked(8, 32, 8, 1, 2048, causal=False) == 3


def test_a_single_causal_query_is_looked_up_without_the_mask():
    assert asked(8, 32, 8, 1, 2048, causal=True) == 3


def test_heads_count_by_their_product_with_the_batch_and_by_their_group():
    assert asked(2, 16, 4, 512, 512) == 0
    assert asked(1, 32, 4, 512, 512) == FALLBACK


@given(st.lists(SHAPES, min_size=1, max_size=20))
def test_the_answer_does_not_depend_on_what_was_asked_before(shapes):
    used = Dispatcher(RULE)

    assert [asked(*shape, dispatcher=used) for shape in shapes] == [asked(*shape) for shape in shapes]


@given(SHAPES)
def test_all_shapes_of_a_bucket_get_one_kernel(shape):
    batch, heads, kv_heads, queries, keys = shape
    least_queries, least_keys = corner((queries, keys))

    if (queries == 1) == (least_queries == 1):
        assert asked(batch, heads, kv_heads, least_queries, least_keys) == asked(*shape)


@given(st.integers(1, 1 << 40))
def test_a_bucket_is_at_most_a_quarter_wide(size):
    (least,) = corner((size,))

    assert least <= size < 1.25 * least + 1


def test_of_points_in_the_bucket_itself_another_bucket_takes_nothing():
    points = [
        [32, 1, 2048, 0],
        [32, 1, 2561, 1],
    ]  # 2048 to 2559 are one bucket, whose middle is nearer to 2561
    key = {"head_dim": 64, "dtype": "fp16", "causal": False, "gqa_ratio": 4, "points": points}
    dispatcher = Dispatcher({"version": 1, "reach": 2.0, "keys": [key]})

    assert dispatcher.kernel(64, "fp16", False, (1, 32, 8, 1, 2559)) == 0


@pytest.mark.parametrize(
    "shape", [(0, 32, 8, 1, 1), (1, 32, 0, 1, 1), (1, 32, 8, 1, 0), (1, 30, 8, 512, 512)]
)
def test_what_makes_no_sense_falls_back(shape):
    assert asked(*shape) == FALLBACK


def test_a_rule_of_another_version_is_refused():
    with pytest.raises(ValueError, match="version 7"):
        Dispatcher({**RULE, "version": 7})


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(dispatch, "_MOST", 10)
    used = Dispatcher(RULE)
    for keys in range(1, 5000, 7):
        asked(1, 32, 8, 512, keys, dispatcher=used)

    assert len(used._buckets) <= 10


def test_threads_get_the_same_answers():
    shapes = [(1, 32, 8, q, k) for q in (1, 100, 512, 3000) for k in range(200, 9000, 50)]
    expected, used, wrong = [asked(*shape) for shape in shapes], Dispatcher(RULE), []

    def work(seed):
        order = list(enumerate(shapes))
        random.Random(seed).shuffle(order)
        wrong.extend(s for at, s in order if asked(*s, dispatcher=used) != expected[at])

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []
