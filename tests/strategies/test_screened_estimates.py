"""A proof would not change an estimate: what strategies propose does not depend on which ones were proven."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from strategy_cases import SPACE, evaluated, score_us

from evoflash.evaluation import Basis, Evaluation, Status
from evoflash.search import Strategy
from evoflash.space import Genome
from evoflash.strategies import make_strategy
from evoflash.strategies.family_bandit import Bandit
from evoflash.strategies.operators import reward

NAMES = ("evolution", "surrogate", "bandit")


def made(name: str) -> Strategy:
    if name != "bandit":
        return make_strategy(name, SPACE, seed=0)
    spaces = (SPACE, replace(SPACE, family="other"))
    members = {space.family: make_strategy("evolution", space, seed=0) for space in spaces}
    return Bandit(members, seed=0, genes={space.family: len(space.params) for space in spaces})


def estimated(genome: Genome) -> Evaluation:
    return replace(evaluated(genome, score_us(genome)), basis=Basis.ESTIMATED, model_version="4")


def proposed(name: str, judged: Callable[[Evaluation], Evaluation]) -> list[Genome]:
    """What the strategy proposes where outcomes are judged so."""
    strategy, genomes = made(name), []
    for _ in range(60):
        proposal = strategy.ask()
        assert proposal is not None
        strategy.tell(proposal, judged(estimated(proposal.genome)))
        genomes.append(proposal.genome)
    return genomes


def screened(evaluation: Evaluation) -> Evaluation:
    """Screened, whatever its time: all of them are."""
    return replace(evaluation, status=Status.SCREENED) if evaluation.is_correct else evaluation


@pytest.mark.parametrize("name", NAMES)
def test_a_strategy_proposes_the_same_whether_estimates_were_proven_or_screened(name: str) -> None:
    assert proposed(name, screened) == proposed(name, lambda evaluation: evaluation)


def test_a_measured_screen_is_too_short_a_look_to_rank_by() -> None:
    genome = proposed("evolution", screened)[0]
    estimate = screened(replace(estimated(genome), status=Status.CORRECT, score_us=5.0))
    measured = replace(estimate, basis=Basis.MEASURED, model_version="")
    assert (estimate.is_rankable, measured.is_rankable) == (True, False)
    assert estimate.is_correct is measured.is_correct is False
    assert reward(estimate, 10.0) > reward(measured, 10.0) > 0
