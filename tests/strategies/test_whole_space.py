"""What the search of a space without a tile promises: it judges all of it, begins far apart, and resumes."""

from dataclasses import replace

import numpy as np
import pytest
from strategy_cases import SPACE, cut, evaluated, fails, spend

from evoflash.evaluation import Proposal, Rung, Status
from evoflash.replay.recorded_space import RecordedOutcome, recorded_space
from evoflash.space import Genome, Param, SearchSpace
from evoflash.strategies import make_strategy, whole_space
from evoflash.strategies.gaussian_process import (
    Features,
    GrowingPosterior,
    kernel_by_kind,
    posterior,
    usual_kernel,
)
from evoflash.strategies.prior import Earlier
from evoflash.strategies.whole_space import OPENING, STANDING, WholeSpace

PLAIN = replace(SPACE, blocks=())  # more points than are listed
SMALL = SearchSpace("small", tuple(Param(f"p{at}", (0, 1, 2, 3)) for at in range(6)))


def hidden_us(genome: Genome) -> float:
    """A wide valley at all zeros, and the optimum far away, in a valley that two genes hide."""
    values = genome.as_dict().values()
    far = sum(value != 3 for value in values)
    return 10.0 + sum(values) if far > 2 else 5.0 + far


@pytest.fixture
def few_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_space, "LISTED", 300)


def plain(seed: int = 0) -> WholeSpace:
    strategy = make_strategy("surrogate", PLAIN, seed=seed)
    assert isinstance(strategy, WholeSpace)
    return strategy


def test_a_search_goes_on_as_an_unbroken_one_where_it_was_cut_with_work_in_flight(few_listed: None) -> None:
    unbroken, broken = spend(plain(), 50, ahead=4), cut(plain(), 50, at=33, ahead=4)

    assert spend(plain(), 50, ahead=4, notebook=broken).proposals == unbroken.proposals
    assert len({proposal.genome for proposal in unbroken.proposals}) == 50
    assert all(PLAIN.is_valid(proposal.genome) for proposal in unbroken.proposals)


def test_another_seed_gives_another_search(few_listed: None) -> None:
    assert spend(plain(seed=1), 14).proposals != spend(plain(seed=2), 14).proposals


def test_history_of_another_version_is_survived(few_listed: None) -> None:
    strategy, old = plain(), Genome("tiles", 0, (("gone", "x"),))
    strategy.tell(Proposal(old, "no_such_operator"), evaluated(old, 1.0))

    assert len(spend(strategy, 20).rows) == 20


def test_a_posterior_that_grows_is_that_of_all_outcomes_at_once() -> None:
    rng, features = np.random.default_rng(0), Features(SMALL)
    rows, kernel = features.of(list(SMALL)), usual_kernel(features.views)
    known, targets = rng.permutation(len(rows))[:90], rng.standard_normal(90)
    whole = posterior(kernel, features.view, rows[known], targets, rows)

    growing = GrowingPosterior(rows, features.view, kernel, known[:10].tolist())
    for row in known[10:].tolist():
        growing.learn(row)

    assert growing.after(targets).mean == pytest.approx(whole.mean, abs=1e-3)
    assert growing.after(targets).deviation == pytest.approx(whole.deviation, abs=1e-3)


def test_the_opening_is_farther_apart_than_random_genomes() -> None:
    def differing(genomes: list[Genome]) -> int:
        rows = [tuple(genome.as_dict().values()) for genome in genomes]
        pairs = [(one, other) for at, one in enumerate(rows) for other in rows[:at]]
        return min(sum(a != b for a, b in zip(one, other, strict=True)) for one, other in pairs)

    asked = spend(WholeSpace(SMALL, seed=1), OPENING, score=hidden_us).proposals
    random = spend(make_strategy("uniform", SMALL, seed=1), OPENING, score=hidden_us).proposals

    assert differing([p.genome for p in asked]) > differing([p.genome for p in random])


def test_at_a_standstill_some_picks_are_far_from_the_best() -> None:
    def differing(genome: Genome) -> int:
        return sum(value != 0 for _, value in genome.values)

    strategy, rng = WholeSpace(SMALL, seed=0), np.random.default_rng(0)
    for genome in dict.fromkeys((SMALL.genome({}), *(SMALL.sample(rng) for _ in range(60)))):
        strategy.tell(Proposal(genome), evaluated(genome, 1.0 + differing(genome)))

    picked = [differing(strategy.ask().genome) for _ in STANDING]

    assert sum(genes >= 3 for genes in picked) >= STANDING.count("far")
    assert min(picked) < 3


def test_positions_count_more_than_single_values_and_switches() -> None:
    space = SearchSpace("kinds", (Param("size", (16, 32, 48, 64)), Param("on", (0, 1)), Param("way", "abc")))
    features = Features(space)
    more = kernel_by_kind(features).log_scales - usual_kernel(features.views).log_scales

    assert features.kinds == ("position", "value", "twos", "switch", "value")
    assert more[0] > 0 > max(more[1:])


def test_a_valley_that_lies_far_from_where_it_stands_is_found() -> None:
    found = [
        min(e.score_us for _, e in spend(WholeSpace(SMALL, seed=seed), 120, score=hidden_us).rows)
        for seed in range(2)
    ]

    assert np.mean(found) < 6


def test_of_a_larger_space_some_are_judged_and_the_neighbours_of_the_best(few_listed: None) -> None:
    def smooth_us(genome: Genome) -> float:
        return 10.0 + sum(genome.as_dict().values())

    rows = spend(WholeSpace(SMALL, seed=0), 60, score=smooth_us).rows

    assert min(e.score_us for _, e in rows) == 10  # hardly ever among 300 of 4,096
    assert len({p.genome for p, _ in rows}) == 60


@pytest.mark.parametrize("score", [hidden_us, fails])
def test_a_space_that_is_larger_than_what_is_judged_is_still_exhausted(few_listed: None, score) -> None:
    space = SearchSpace("wide", (Param("a", tuple(range(20))), Param("b", tuple(range(16)))))
    assert space.cardinality > whole_space.LISTED

    assert len(spend(WholeSpace(space, seed=0), 1000, score=score).rows) == 320


def test_an_earlier_search_shows_where_to_begin() -> None:
    needle = list(SMALL)[1234].as_dict()

    def needle_us(genome: Genome) -> float:
        differing = sum(needle[name] != value for name, value in genome.values)
        return 5.0 + differing if differing < 2 else 10.0 + int(genome.id, 16) % 7

    near = [genome for genome in SMALL if 5 < needle_us(genome) < 7]
    taught = Earlier(tuple((genome, 3 * needle_us(genome)) for genome in near[::2] + list(SMALL)[:9]))

    def best(earlier: tuple[Earlier, ...]) -> float:
        made = (WholeSpace(SMALL, seed=seed, earlier=earlier) for seed in range(2))
        return float(np.mean([min(e.score_us for _, e in spend(s, 16, score=needle_us).rows) for s in made]))

    assert best((taught,)) < best(())


def test_seeds_come_first_and_few_others_before_the_model() -> None:
    seeds = tuple(list(SMALL)[:4])
    strategy = WholeSpace(SMALL, seed=0, seeds=seeds)

    proposals = spend(strategy, 12, score=hidden_us).proposals

    assert [proposal.genome for proposal in proposals[:4]] == list(seeds)
    assert [proposal.operator for proposal in proposals] == ["seed"] * 4 + ["sample"] * 2 + ["model"] * 6


def test_a_genome_told_that_is_not_judged_is_learnt_from(few_listed: None) -> None:
    strategy = WholeSpace(SMALL, seed=0)
    for genome in [SMALL.sample(np.random.default_rng(at)) for at in range(30)]:
        strategy.tell(Proposal(genome), evaluated(genome, hidden_us(genome)))

    assert strategy.ask().operator == "model"


def test_some_of_a_space_are_all_of_a_small_one() -> None:
    outcomes = {g: RecordedOutcome(Status.CORRECT, Rung.DONE, score_us=1.0) for g in list(SMALL)[:50]}
    recorded, rng = recorded_space("small", SMALL.params, outcomes), np.random.default_rng(0)

    assert recorded.some(50, rng) == (tuple(outcomes), True)
    assert SMALL.some(4096, rng) == (tuple(SMALL), True)
    for space in (recorded, SMALL):
        few, is_whole = space.some(20, rng)
        assert len(set(few)) == len(few) <= 20
        assert not is_whole
