"""Which kernels are kept, against every possible set, and the rule that gives each shape its fastest one."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tables import table_of_cases

from evoflash.app.portfolio import choice
from evoflash.app.portfolio.choice import choose, evaluate, regrets
from evoflash.problem import parse_workload
from evoflash.runtime.dispatch import FALLBACK, Dispatcher

INF = np.inf
TIMES = st.sampled_from([1.0, 1.001, 1.1, 1.5, 2.0, 3.0, INF])


@st.composite
def tables(draw):
    shape = (draw(st.integers(1, 6)), draw(st.integers(1, 7)))
    times = draw(arrays(float, shape, elements=TIMES))
    weights = draw(st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=shape[0], max_size=shape[0]))
    return regrets(times), np.array(weights) / sum(weights)


def of_all_sets(regret, weights, most):
    sets = (s for n in range(most + 1) for s in itertools.combinations(range(regret.shape[1]), n))
    found = [evaluate(regret, weights, each) for each in sets]
    good = min(found, key=lambda each: each.rank()[:2]).mean + choice.AS_GOOD
    return min(found, key=lambda each: each.rank(good)[:5]).rank(good)[:5], good


@given(tables(), st.integers(1, 4))
@settings(max_examples=200, deadline=None)
def test_no_set_of_as_many_kernels_is_better(table, most):
    regret, weights = table

    best, good = of_all_sets(regret, weights, most)
    assert choose(regret, weights, most).rank(good)[:5] == best


@given(tables(), st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_exchanges_end_at_a_set_that_no_exchange_makes_better(table, most):
    regret, weights = table
    columns = choice._undominated_columns(regret)
    if not columns:
        return

    found = evaluate(regret, weights, choice._local_search(regret, weights, columns, most, good=0.0))

    swaps = [tuple(sorted({*found.kernels} - {out} | {new})) for out in found.kernels for new in columns]
    assert len(found.kernels) <= most
    assert all(found.rank()[:4] <= evaluate(regret, weights, each).rank()[:4] for each in swaps)


def test_a_large_table_is_searched_by_exchanges_and_says_so(monkeypatch):
    monkeypatch.setattr(choice, "_EXACT", 0)
    regret = regrets(np.random.default_rng(0).uniform(1, 2, (12, 20)))

    found = choose(regret, [1 / 12] * 12, 3)

    assert not found.is_exact
    assert len(found.kernels) == 3


def test_the_weights_decide_which_shape_gets_its_best_kernel():
    regret = regrets(np.array([[1.0, 2.0], [2.0, 1.0]]))

    assert choose(regret, [0.9, 0.1], 1).kernels == (0,)
    assert choose(regret, [0.1, 0.9], 1).kernels == (1,)


def test_the_mean_is_how_much_longer_the_mix_takes():
    times = np.array([[10.0, 12.0], [30.0, 20.0]])
    shares = [0.25, 0.75]  # of the time with the best kernels

    found = choose(regrets(times), shares, 1)

    assert found.kernels == (1,)
    assert found.mean == pytest.approx(0.25 * 12 / 10 + 0.75 * 20 / 20 - 1)
    assert found.worst == pytest.approx(0.2)


def test_of_equal_means_the_smaller_worst_regret_wins():
    regret = np.array([[0.0, 0.2, 0.1], [0.2, 0.0, 0.1], [0.0, 0.0, 0.0]])

    assert choose(regret, [1 / 3] * 3, 1).kernels == (2,)


@pytest.mark.parametrize(("more", "kept"), [(0.0015, (1,)), (0.0025, (0,))])
def test_of_means_that_no_clock_tells_apart_the_smaller_worst_regret_wins(more, kept, monkeypatch):
    regret = np.array([[0.10, 0.05 + more], [0.0, 0.05 + more]])

    assert choose(regret, [0.5, 0.5], 1).kernels == kept
    monkeypatch.setattr(choice, "_EXACT", 0)
    assert choose(regret, [0.5, 0.5], 1).kernels == kept


def test_of_equal_sets_the_one_with_fewer_kernels_wins():
    regret = np.array([[0.0, 0.0, 0.5], [0.0, 0.3, 0.0]])

    assert choose(regret, [0.5, 0.5], 3).kernels == (0,)


def test_of_kernels_that_take_as_long_everywhere_the_first_is_kept():
    assert choose(np.zeros((2, 3)), [0.5, 0.5], 2).kernels == (0,)


def test_shapes_are_covered_before_they_are_fast():
    regret = regrets(np.array([[1.0, 2.0], [INF, 1.0]]))

    found = choose(regret, [0.99, 0.01], 1)

    assert found.kernels == (1,)
    assert found.uncovered == 0.0


def test_what_is_left_uncovered_is_said_by_its_weight():
    regret = regrets(np.array([[1.0, INF], [INF, 1.0]]))

    found = choose(regret, [0.7, 0.3], 1)

    assert found.kernels == (0,)
    assert found.uncovered == pytest.approx(0.3)


def test_a_shape_that_no_kernel_computes_counts_nowhere():
    regret = regrets(np.array([[1.0, 2.0], [INF, INF]]))

    found = choose(regret, [0.5, 0.5], 1)

    assert (found.kernels, found.mean, found.uncovered) == ((0,), 0.0, 0.0)


def test_nothing_is_chosen_where_no_kernel_computes_anything():
    assert choose(regrets(np.full((2, 2), INF)), [0.5, 0.5], 2).kernels == ()


ARCH = "sm_89"
POINTS = {
    parse_workload("b=1,h=8,s=128,d=64"): 0,
    parse_workload("b=1,h=8,s=1024,d=64"): 1,
    parse_workload("b=8,h=8,s=1024,d=64"): 1,
    parse_workload("b=4,h=8,sq=1,skv=4096,d=64"): 2,
    parse_workload("b=1,h=8,s=1024,d=64,causal"): 0,
}


@st.composite
def mixes(draw):
    sizes = st.sampled_from([1, 100, 128, 300, 1000, 4096])
    shape = st.builds(
        lambda b, sq, skv: parse_workload(f"b={b},h=8,sq={sq},skv={skv},d=64"),
        st.integers(1, 9),
        sizes,
        sizes,
    )
    return draw(st.dictionaries(shape, st.integers(0, 3), min_size=1, max_size=8))


def given_to(points, workload):
    return choice.ask_dispatcher(Dispatcher(choice.rule_of(points, ARCH)), workload, ARCH)


def test_every_shape_of_the_mix_gets_its_own_kernel():
    assert [given_to(POINTS, workload) for workload in POINTS] == list(POINTS.values())


@given(mixes())
def test_a_shape_alone_in_its_bucket_gets_its_own_kernel(points):
    buckets = [choice.bucket(workload, ARCH) for workload in points]

    for workload, number in points.items():
        if buckets.count(choice.bucket(workload, ARCH)) == 1:
            assert given_to(points, workload) == number


def test_a_shape_between_two_gets_the_kernel_of_the_nearer():
    assert given_to(POINTS, parse_workload("b=1,h=8,s=200,d=64")) == 0
    assert given_to(POINTS, parse_workload("b=1,h=8,s=700,d=64")) == 1


@table_of_cases()
def test_what_nothing_like_was_timed_falls_back(outside):
    assert given_to(POINTS, parse_workload(outside)) == FALLBACK


@given(mixes())
def test_both_sides_of_a_border_get_different_kernels(points):
    for border in choice.borders(points, ARCH):
        assert border.kernels[0] != border.kernels[1]
        assert (given_to(points, border.first), given_to(points, border.second)) == border.kernels


@given(mixes())
def test_a_border_lies_between_shapes_that_hardly_differ(points):
    for border in choice.borders(points, ARCH):
        sides = zip(choice.place(border.first), choice.place(border.second), strict=True)
        assert max(abs(a - b) for a, b in sides) <= 1.0  # a whole octave: from batch 1 to 2


def test_neighbours_with_one_kernel_have_no_border():
    points = {workload: 0 for workload in POINTS if not workload.causal and workload.seq_q > 1}

    assert len(points) > 2
    assert choice.borders(points, ARCH) == ()


def test_two_neighbours_with_different_kernels_have_a_border():
    assert choice.borders(POINTS, ARCH)
