"""What searches for other problems say of a genome: learnt over problems, outweighed by what is found."""

import numpy as np
import pytest
from strategy_cases import SPACE, distinct, score_us

from evoflash.space import Genome, Param, Proportions, SearchSpace
from evoflash.strategies.gaussian_process import Features
from evoflash.strategies.prior import TRUST, Earlier, Prior, Trend, trend_of

LINE = SearchSpace("line", (Param("n", tuple(range(1, 33))), Param("word", ("a", "b"))))


def n_of(genome: Genome) -> int:
    return int(genome.as_dict()["n"])


def line_search(best: int, *, size: float) -> Earlier:
    """Fast where n is `best`, on a problem of that size."""
    outcomes = tuple((genome, 10.0 + abs(n_of(genome) - best)) for genome in LINE)
    return Earlier(outcomes, sizes=(size,))


def test_it_ranks_genomes_of_a_problem_between_two_that_were_searched() -> None:
    searches = [line_search(best=8, size=4.0), line_search(best=24, size=8.0)]
    said = {
        size: Prior(Features(LINE), (size,), searches).of([LINE.genome({"n": n}) for n in range(1, 33)])
        for size in (4.0, 8.0)
    }

    assert abs(1 + int(np.argmin(said[4.0])) - 8) <= 1
    assert abs(1 + int(np.argmin(said[8.0])) - 24) <= 1


def test_times_are_compared_within_a_search_alone() -> None:
    genomes = distinct(30, 1)
    times = [(genome, us) for genome in genomes if (us := score_us(genome))]
    slow = Earlier(tuple((genome, 1000.0 * us) for genome, us in times))

    fast, mixed = (Prior(Features(SPACE), (), each) for each in ([Earlier(tuple(times))], [slow]))

    assert fast.of(genomes) == pytest.approx(mixed.of(genomes), abs=1e-4)


def test_what_failed_is_as_slow_as_what_takes_twice_as_long() -> None:
    genomes = list(LINE)
    failed = Earlier(tuple((g, np.inf if n_of(g) > 16 else 10.0 + n_of(g) / 4) for g in genomes))
    slow = Earlier(tuple((g, 400.0 if n_of(g) > 16 else 10.0 + n_of(g) / 4) for g in genomes))

    found, other = (Prior(Features(LINE), (), [each]).of(genomes) for each in (failed, slow))

    assert found == pytest.approx(other, abs=1e-4)
    assert found[genomes.index(LINE.genome({"n": 30}))] > found[genomes.index(LINE.genome({"n": 2}))] + 1


def test_proportions_of_the_other_problem_are_taken_and_not_this_one_s() -> None:
    here = Proportions(("fill",), lambda genome: (float(n_of(genome)),))
    space = SearchSpace("line", LINE.params, proportions=here)
    genomes = list(space)
    # There, fast is what has a proportion of 3, and n says nothing.
    rng = np.random.default_rng(0)
    there = tuple((float(rng.integers(1, 9)),) for _ in genomes)
    search = Earlier(
        tuple((genome, 10.0 + abs(p - 3)) for genome, (p,) in zip(genomes, there, strict=True)), there
    )

    said = Prior(Features(space), (), [search]).of(genomes)

    assert abs(n_of(genomes[int(np.argmin(said))]) - 3) <= 1


def test_a_trend_that_the_outcomes_follow_is_taken_and_one_that_they_contradict_is_flat() -> None:
    prior = Prior(Features(LINE), (4.0,), [line_search(best=8, size=4.0)])
    genomes = list(LINE)[::2]
    said = prior.of(genomes)

    followed = trend_of(prior, genomes, (said - said.mean()) / said.std())
    against = trend_of(prior, genomes, (said.mean() - said) / said.std())

    assert np.corrcoef(followed.of(genomes), said)[0, 1] > 0.999
    assert followed.slope > 0.8
    assert against.slope == 0.0
    assert not against.of(genomes).any()


def test_before_any_outcome_the_prior_is_believed_and_without_one_nothing_is_said() -> None:
    prior = Prior(Features(LINE), (4.0,), [line_search(best=8, size=4.0)])

    trend = trend_of(prior, [], np.zeros(0))

    assert trend == Trend(prior, 1.0, 0.0)
    assert trend_of(None, list(LINE)[:2], np.ones(2)).of(list(LINE)[:2]).tolist() == [0.0, 0.0]
    assert TRUST > 0
