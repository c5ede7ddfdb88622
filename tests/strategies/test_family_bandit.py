"""The bandit keeps every strategy's contract over two families, and gives the budget to the one that pays."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from strategy_cases import SPACE, TINY, Notebook, Score, StrategyCases, evaluated, fails, score_us, spend

from evoflash.evaluation import Proposal, Timing
from evoflash.search import Strategy
from evoflash.space import Genome, SearchSpace
from evoflash.strategies import make_strategy
from evoflash.strategies.family_bandit import HOPELESS, OPENING, Bandit


def over(*spaces: SearchSpace, seed: int = 0, inner: str = "evolution") -> Bandit:
    members = {space.family: make_strategy(inner, space, seed=seed) for space in spaces}
    return Bandit(members, seed=seed, genes={space.family: len(space.params) for space in spaces})


def other(space: SearchSpace, family: str = "other") -> SearchSpace:
    """The same space under another family's name."""
    return replace(space, family=family)


class TestBandit(StrategyCases):
    def make(self, space: SearchSpace = SPACE, *, seed: int = 0) -> Strategy:
        return over(*self.spaces(space), seed=seed)

    def spaces(self, space: SearchSpace = SPACE) -> tuple[SearchSpace, ...]:
        return space, other(space)


def slower(**factors: float) -> Score:
    """The made-up kernels' times, those of some families multiplied."""

    def score(genome: Genome) -> float | None:
        us = score_us(genome)
        return None if us is None else us * factors.get(genome.family, 1.0)

    return score


def shares(notebook: Notebook) -> Counter[str]:
    return Counter(proposal.genome.family for proposal in notebook.proposals)


def test_each_family_opens_in_turn() -> None:
    proposals = spend(over(SPACE, other(SPACE), other(SPACE, "third")), 3 * OPENING).proposals
    assert [p.genome.family for p in proposals] == ["tiles", "other", "third"] * OPENING


def test_a_family_that_near_searches_found_hopeless_opens_with_one_proposal_and_may_still_win() -> None:
    def opened(behind: dict[str, float], factor: float) -> Counter[str]:
        spaces = SPACE, other(SPACE)
        members = {space.family: make_strategy("evolution", space, seed=0) for space in spaces}
        genes = {space.family: len(space.params) for space in spaces}
        strategy = Bandit(members, seed=0, genes=genes, behind=behind)
        return shares(spend(strategy, 60, score=slower(other=factor)))

    assert opened({"other": 1.01 * HOPELESS, "tiles": 1.0}, 40.0)["other"] == 1
    assert opened({"other": 0.99 * HOPELESS}, 40.0)["other"] > 1
    assert opened({"other": 20.0}, 0.5)["other"] > 30


@pytest.mark.parametrize("seed", range(3))
def test_a_family_many_times_slower_gets_only_its_opening(seed: int) -> None:
    notebook = spend(over(SPACE, other(SPACE), seed=seed), 150, score=slower(other=40.0))
    assert 2 <= shares(notebook)["other"] <= OPENING + 2


@pytest.mark.parametrize(("factor", "least"), [(1.05, 40), (1.1, 4 * OPENING)])
def test_a_family_that_is_little_slower_is_not_given_up(factor: float, least: int) -> None:
    used = Counter[str]()
    for seed in range(4):
        used += shares(spend(over(SPACE, other(SPACE), seed=seed), 100, score=slower(other=factor)))
    assert used["tiles"] > used["other"] > least


def test_a_family_that_began_badly_is_asked_again_while_the_leader_gains() -> None:
    steps = SearchSpace("steps", (replace(TINY.params[0], values=tuple(range(400))),))
    tried = Counter[str]()

    def score(genome: Genome) -> float:
        tried[genome.family] += 1
        late = genome.family == "late"
        return (25.0 if tried["late"] < 7 else 5.0) if late else 12.0 * 0.999 ** tried["early"]

    early, late = replace(steps, family="early"), replace(steps, family="late")
    used = shares(spend(over(early, late, inner="uniform"), 300, score=score))
    assert used["late"] > 0.3 * used.total()


def test_two_equal_families_share_the_budget() -> None:
    used = Counter[str]()
    for seed in range(4):
        used += shares(spend(over(SPACE, other(SPACE), seed=seed), 100))
    assert 0.3 < used["other"] / used.total() < 0.7


def test_a_family_that_keeps_improving_overtakes_one_that_stands_still() -> None:
    steps = SearchSpace("steps", (replace(TINY.params[0], values=tuple(range(400))),))
    still, moving = replace(steps, family="still"), replace(steps, family="moving")
    tried = Counter[str]()

    def score(genome: Genome) -> float:
        tried[genome.family] += 1
        return 10.0 if genome.family == "still" else 12.0 * 0.96 ** tried["moving"]

    used = shares(spend(over(still, moving, inner="uniform"), 100, score=score))
    assert used["moving"] > 3 * used["still"]


def test_a_family_that_never_works_leaves_the_budget_to_the_other() -> None:
    def score(genome: Genome) -> float | None:
        return None if genome.family == "other" else score_us(genome)

    used = shares(spend(over(SPACE, other(SPACE)), 100, score=score))
    assert used["other"] == OPENING


def test_an_exhausted_family_leaves_the_budget_to_the_other() -> None:
    used = shares(spend(over(TINY, other(SPACE)), 120, score=lambda genome: 1.0))
    assert used["tiny"] <= len(set(TINY))
    assert used.total() == 120


def test_a_lower_bound_is_no_best_time() -> None:
    bandit, rng = over(SPACE, other(SPACE)), np.random.default_rng(0)
    early = Timing("p", "cold", 0.1, 0.1, 0.1, 1, censored=True)
    for _ in range(OPENING):
        genome, hopeless = SPACE.sample(rng), other(SPACE).sample(rng)
        bandit.tell(Proposal(genome), evaluated(genome, 10.0))
        bandit.tell(Proposal(hopeless), replace(evaluated(hopeless, 0.1), timings=(early,)))
    assert {bandit.ask().genome.family for _ in range(20)} == {"tiles"}


def test_a_genome_of_a_family_that_is_no_member_is_passed_over() -> None:
    bandit, genome = over(SPACE), Genome("gone", 1, (("a", 1),))
    bandit.tell(Proposal(genome), evaluated(genome, 0.001))
    assert bandit.ask().genome.family == "tiles"


def test_no_members_means_nothing_to_propose() -> None:
    assert Bandit({}, seed=0, genes={}).ask() is None


def test_failing_families_share_alike() -> None:
    used = shares(spend(over(SPACE, other(SPACE)), 60, score=fails))
    assert min(used.values()) > 15


def budget_of(*, genes: dict[str, int], won: dict[str, float] | None = None) -> Counter[str]:
    """What two families of equal kernels got of 60 proposals, over eight seeds."""
    used, spaces = Counter[str](), (SPACE, other(SPACE))
    for seed in range(8):
        members = {space.family: make_strategy("uniform", space, seed=seed) for space in spaces}
        used += shares(spend(Bandit(members, seed=seed, genes=genes, won=won), 60, score=lambda genome: 9.0))
    return used


def test_a_family_of_many_genes_is_searched_longer_before_it_is_given_up() -> None:
    used = budget_of(genes={"tiles": 30, "other": 5})
    assert used["tiles"] > 2 * used["other"] > 0


def test_a_family_that_won_near_problems_gets_more_and_the_other_is_not_shut_out() -> None:
    genes = {"tiles": 12, "other": 12}
    used = budget_of(genes=genes, won={"tiles": 1.0})
    assert used["tiles"] > 2 * used["other"] > 2 * 8 * OPENING
    assert budget_of(genes=genes, won={}) == budget_of(genes=genes)


def test_families_that_won_as_often_share_the_budget() -> None:
    used = budget_of(genes={"tiles": 12, "other": 12}, won={"tiles": 0.5, "other": 0.5})
    assert 0.4 < used["tiles"] / used.total() < 0.6


def test_before_anything_is_known_families_that_won_near_the_problem_have_the_most_in_flight() -> None:
    spaces = SPACE, other(SPACE)
    members = {space.family: make_strategy("evolution", space, seed=0) for space in spaces}
    bandit = Bandit(members, seed=0, genes=dict.fromkeys(members, 12), won={"other": 1.0})

    asked = Counter(bandit.ask().genome.family for _ in range(64))
    assert asked["other"] > 3 * asked["tiles"]
