"""The model of `surrogate`: rows, the Gaussian process on them, and what it prefers."""

from dataclasses import replace

import numpy as np
import pytest
from strategy_cases import SPACE, sampled

from evoflash.space import Genome, Param, Proportions, SearchSpace
from evoflash.strategies.gaussian_process import (
    Covariance,
    Features,
    by_share,
    correlation,
    expected_gain,
    favourite,
    fit,
    posterior,
    some_of,
    targets_of,
    usual_kernel,
)

PLAIN = SearchSpace(
    "plain",
    (
        Param("n", (1, 2, 4, 8, 16)),
        Param("word", ("a", "b", "c")),
        Param("on", (False, True)),
        Param("depth", (1, 2)),
        Param("fixed", (7,)),
    ),
    when={"depth": lambda v: v["on"]},
)


def apart(one: dict, other: dict, space: SearchSpace = PLAIN) -> dict[int, float]:
    """The squared distance of two genomes in each view that tells them apart."""
    features = Features(space)
    rows = features.of([space.genome(one), space.genome(other)])
    squared = np.bincount(features.view, (rows[0] - rows[1]) ** 2, features.views)
    return {view: float(value) for view, value in enumerate(squared) if value > 1e-12}


def test_numbers_have_a_position_and_a_value_and_words_a_value_alone() -> None:
    assert apart({"n": 1}, {"n": 2}) == pytest.approx({0: 1 / 16, 1: 1.0})
    assert apart({"n": 1}, {"n": 16}) == pytest.approx({0: 1.0, 1: 1.0})
    assert apart({"word": "a"}, {"word": "c"}) == pytest.approx({2: 1.0})
    assert apart({"n": 4, "word": "b"}, {"n": 4, "word": "b"}) == {}


def test_sizes_are_told_apart_by_how_often_two_divides_them() -> None:
    space = SearchSpace("sizes", (Param("n", (16, 32, 48, 64, 80)),))

    assert apart({"n": 16}, {"n": 48}, space) == pytest.approx({0: 1 / 4, 1: 1.0})
    assert apart({"n": 16}, {"n": 64}, space) == pytest.approx({0: 9 / 16, 1: 1.0, 2: 1.0})
    assert apart({"n": 64}, {"n": 32}, space) == pytest.approx({0: 1 / 4, 1: 1.0, 2: 1 / 4})


@pytest.mark.parametrize(
    "values", [(1, 2, 4, 8), (8, 4, 2, 1), (0, 1, 2, 3), (1, 2)], ids=["grows", "falls", "counts", "pair"]
)
def test_where_positions_say_it_or_values_are_no_sizes_two_is_not_asked(values: tuple[int, ...]) -> None:
    several = int(len(values) > 2)

    assert Features(SearchSpace("one", (Param("n", values),))).views == 1 + several


def test_an_inactive_size_is_as_even_as_the_middle_one() -> None:
    genes = (Param("on", (False, True)), Param("n", (16, 32, 48, 64)))
    space = SearchSpace("sizes", genes, when={"n": lambda v: v["on"]})

    assert 3 not in apart({"on": False}, {"on": True, "n": 32}, space)
    assert apart({"on": False}, {"on": True, "n": 64}, space)[3] == pytest.approx(1 / 4)


def test_an_inactive_gene_is_as_far_from_all_its_values() -> None:
    off, one, two = {"on": False}, {"on": True, "depth": 1}, {"on": True, "depth": 2}

    assert apart(off, one) == apart(off, two)
    assert len(apart(off, one)) == 3  # the switch, the depth's position, and that it is active
    assert apart(one, two) == pytest.approx({4: 1.0})


def test_a_switch_and_a_number_of_equal_value_are_two_values() -> None:
    mixed = SearchSpace("mixed", (Param("a", (0, False, 1, True)),))
    genomes = [Genome("mixed", 1, (("a", value),)) for value in (0, False, 1, True)]
    rows = Features(mixed).rows(genomes, ())

    assert len({tuple(row) for row in rows.tolist()}) == 4


def test_where_proportions_are_known_two_is_not_asked() -> None:
    plain = SearchSpace("sizes", (Param("n", (16, 32, 48, 64)),))
    known = replace(plain, proportions=Proportions(("size",), lambda genome: (1.0,)))

    assert Features(plain).views == 3
    assert Features(known).views == 3  # position, value and the proportion


def test_proportions_stand_beside_the_genes_as_views_of_their_own() -> None:
    known = Proportions(("size", "launches"), lambda genome: (float(genome.as_dict()["n"]), 1.0))
    space = replace(PLAIN, proportions=known)
    rows = Features(space).of([space.genome({"n": n}) for n in (4, 8, 16)])

    assert Features(space).views == Features(PLAIN).views + 2
    assert rows[:, :-2] == pytest.approx(Features(PLAIN).of([PLAIN.genome({"n": n}) for n in (4, 8, 16)]))
    assert rows[2, -2] - rows[1, -2] == pytest.approx(2 * (rows[1, -2] - rows[0, -2]))
    assert np.ptp(rows[:, -1]) == 0
    assert Features(space).of([]).shape == (0, rows.shape[1])


def warps_and_layout(genomes: list[Genome]) -> np.ndarray:
    values = [genome.as_dict() for genome in genomes]
    targets = np.array([np.log2(v["warps"]) + 2.0 * (v["layout"] == "xor64") for v in values])
    return targets - targets.mean()


def test_what_was_told_is_expected_again_and_what_is_far_away_is_unsure() -> None:
    features, genomes = Features(SPACE), sampled(30)
    rows, targets = features.of(genomes), warps_and_layout(genomes)
    kernel = Covariance(np.zeros(features.views), np.log(1e-4))

    known = posterior(kernel, features.view, rows[:20], targets[:20], rows)

    assert known.mean[:20] == pytest.approx(targets[:20], abs=0.01)
    assert known.deviation[:20].max() < 0.1 * known.deviation[20:].min()


def test_the_posterior_is_that_of_the_textbook() -> None:
    features, genomes = Features(SPACE), sampled(40)
    rows, targets = features.of(genomes), warps_and_layout(genomes)
    kernel = usual_kernel(features.views)
    scaled = kernel.scale_rows(rows, features.view)
    covariance = correlation(scaled[:25], scaled[:25]) + kernel.noise * np.eye(25)
    across = correlation(scaled[:25], scaled[25:])

    known = posterior(kernel, features.view, rows[:25], targets[:25], rows[25:])

    solved = np.linalg.solve(covariance, across)
    assert known.mean == pytest.approx(solved.T @ targets[:25])
    assert known.share == pytest.approx(1 - (across * solved).sum(axis=0))


def test_assuming_a_row_is_learning_that_it_is_as_expected() -> None:
    features, genomes = Features(SPACE), sampled(40)
    rows, targets = features.of(genomes), warps_and_layout(genomes)
    kernel = usual_kernel(features.views)
    known = posterior(kernel, features.view, rows[:25], targets[:25], rows[25:])
    before = known.mean.copy()

    known.assume(3)
    known.assume(7)

    more = posterior(kernel, features.view, rows[[*range(25), 28, 32]], np.zeros(27), rows[25:])
    assert known.share == pytest.approx(more.share)
    assert known.mean == pytest.approx(before)
    flying = posterior(kernel, features.view, rows[:25], targets[:25], rows[25:], in_flight=rows[[28, 32]])
    assert flying.share == pytest.approx(known.share)
    assert flying.mean == pytest.approx(before)


def test_the_fit_finds_which_genes_matter() -> None:
    features, genomes = Features(SPACE), sampled(80)
    rows, targets = features.of(genomes), warps_and_layout(genomes)
    start = usual_kernel(features.views)

    kernel = fit(start, rows, features.view, targets)

    counts = np.bincount(
        features.view, np.ptp(kernel.scale_rows(rows, features.view), axis=0), features.views
    )
    matter = set(np.argsort(counts)[-3:].tolist())
    assert matter <= set(_views_of("warps")) | set(_views_of("layout"))
    unseen = sampled(100, seed=1)
    asked, truth = features.of(unseen), warps_and_layout(unseen)
    known, usual = (posterior(k, features.view, rows, targets, asked) for k in (kernel, start))
    assert np.abs(known.mean - truth).mean() < 0.5 * np.abs(usual.mean - truth).mean()


def _views_of(name: str) -> list[int]:
    """The views of a gene of SPACE: those in which changing it alone shows."""
    features = Features(SPACE)
    base = SPACE.genome({})
    others = [SPACE.genome({**base.as_dict(), name: value}) for value in SPACE.param(name).values]
    rows = features.of([base, *others])
    return sorted(set(features.view[np.ptp(rows, axis=0) > 0].tolist()))


def test_targets_tell_the_best_apart_most_and_failures_come_last() -> None:
    targets = targets_of([3.0, 1.0, 2.0, np.inf, np.inf])

    assert targets[1] < targets[2] < targets[0] < targets[3] == targets[4]
    assert targets[2] - targets[1] > targets[0] - targets[2]
    assert (targets.mean(), targets.std()) == pytest.approx((0.0, 1.0))
    assert targets_of([1e3 * us for us in (3.0, 1.0, 2.0, np.inf, np.inf)]) == pytest.approx(targets)
    assert not targets_of([2.0, 2.0]).any()


def test_as_shares_of_the_best_a_plateau_is_one_step_however_many_stand_on_it() -> None:
    scores = [1.0, *np.linspace(1.0005, 1.002, 40), 1.5, 3.0, np.inf]
    by_shares, by_ranks = targets_of(scores, scale=by_share), targets_of(scores)

    assert np.ptp(by_shares[:-3]) < 0.05 * (by_shares[-3] - by_shares[0])
    assert np.ptp(by_ranks[:-3]) > 0.5 * (by_ranks[-3] - by_ranks[0])
    assert by_shares[-3] < by_shares[-2] < by_shares[-1]
    assert targets_of([1e3 * us for us in scores], scale=by_share) == pytest.approx(by_shares)
    assert not targets_of([np.inf, np.inf], scale=by_share).any()


def test_of_many_outcomes_the_best_and_some_of_all_ages_are_kept() -> None:
    targets = np.random.default_rng(0).permutation(1000).astype(float)

    some = some_of(targets, 100)

    assert len(set(some.tolist())) == 100
    assert set(range(50)) <= set(targets[some].astype(int).tolist())
    assert np.histogram(some, bins=10, range=(0, 1000))[0].min() >= 4
    assert some_of(targets, 5000).tolist() == list(range(1000))


def test_expected_gain_is_that_of_the_normal_distribution() -> None:
    rng = np.random.default_rng(0)
    samples = rng.normal(0.3, 0.5, size=400_000)

    found = expected_gain(np.array([0.3]), np.array([0.5]), 0.0)

    assert found == pytest.approx([np.maximum(-samples, 0).mean()], rel=0.02)
    assert np.diff(expected_gain(np.linspace(-9, 9, 50), np.ones(50), 0.0)).max() <= 0


def test_the_gain_of_what_does_not_vary_is_known_and_no_nan() -> None:
    found = expected_gain(np.array([0.5, 1.0, 1.5]), np.zeros(3), 1.0)

    assert found.tolist() == [0.5, 0.0, 0.0]


def test_of_two_alike_the_second_waits_and_none_comes_twice() -> None:
    line = SearchSpace("line", (Param("a", tuple(range(20))),))
    features = Features(line)
    rows = features.of(list(line))
    kernel = Covariance(np.full(features.views, np.log([3.0, 1e-3])), np.log(1e-3))
    targets = np.array([2.0, -2.0])  # fast at 12, slow at 2
    known = posterior(kernel, features.view, rows[[2, 12]], targets, rows)

    order, left = [], np.ones(20, dtype=bool)
    while left.any():
        order.append(favourite(known, -2.0, left))
        left[order[-1]] = False
        known.assume(order[-1])

    assert sorted(order) == list(range(20))
    assert abs(order[0] - 12) < 8
    assert abs(order[1] - order[0]) > 1
