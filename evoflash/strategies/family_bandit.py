"""Runs one strategy for each kernel family and gives the budget to the family that pays. Proposes nothing.

What a family's strategy does inside its own space is that strategy's business.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from evoflash.evaluation import Evaluation, Proposal
from evoflash.space import Genome

if TYPE_CHECKING:
    from evoflash.search import Strategy

OPENING = 4  # proposals of each family before any is preferred: its best seeds
HOPELESS = 3.0  # times the leader's best: a slower family's opening ends with its second correct kernel,
# and nothing is kept for it later
UNTRIED = math.log(1.5)  # gain that a family nobody has searched yet may still make
MOST = math.log(2.0)  # no family is expected to gain more, whatever its last seed gained over its first
TEMPERATURE = 0.05  # a family whose prospects are worse by this log ratio gets 1/e of the other's share
LEAST = 0.05  # share of each family that is not that slow: four proposals may have been unlucky ones
DISTRUST = 0.1  # weight of a family that never won near the problem, beside 1.1 of one that always did


@dataclass(slots=True)
class _Account:
    """What a family has had and what came of it."""

    genes: int  # proposals after which half of the first hope is gone: a large space takes longer to search
    proposed: int = 0
    correct: int = 0
    bests: list[float] = field(default_factory=list)  # log of the best time in us after each outcome

    @property
    def best(self) -> float:
        return self.bests[-1] if self.bests else math.inf

    def prospect(self) -> float:
        """The log time that the family may reach when it is given as many proposals again.

        What the second half of its outcomes gained is expected once more; early on, hope stands in for it.
        """
        if self.best == math.inf:
            return math.inf
        middle = self.bests[len(self.bests) // 2 - 1] if len(self.bests) > 1 else self.best
        gained = middle - self.best if middle < math.inf else 0.0
        return self.best - max(min(gained, MOST), UNTRIED * self.genes / (self.genes + self.proposed))


class Bandit:
    """Asks one member strategy at a time."""

    def __init__(
        self,
        members: Mapping[str, "Strategy"],
        *,
        seed: int,
        genes: Mapping[str, int],
        won: Mapping[str, float] | None = None,
        behind: Mapping[str, float] | None = None,
    ) -> None:
        """`members` maps each family's name to the strategy on its space, `genes` to the number of its genes,
        `won` to its share, from 0 to 1, of the best kernels that are known of near problems, and `behind` to
        how many times as slow as the best it was on near problems at least: a hopeless one opens with one
        proposal.
        """
        self._members, self._seed = dict(members), seed
        self._accounts = {family: _Account(genes[family]) for family in members}
        self._trust = {family: DISTRUST + won.get(family, 0.0) if won else 1.0 for family in members}
        known = behind or {}
        self._openings = {each: 1 if known.get(each, 0.0) > HOPELESS else OPENING for each in members}
        self._in_flight: set[Genome] = set()
        self._proposed = 0  # the random stream's position: the same after resuming

    def ask(self) -> Proposal | None:
        """The next proposal of the chosen family, or of another when it has none; None when none has."""
        rng = np.random.default_rng([self._seed, self._proposed])
        left = list(self._members)
        while left:
            family = self._choose(left, rng)
            proposal = self._members[family].ask()
            if proposal is not None:
                self._count(family)
                self._in_flight.add(proposal.genome)
                return proposal
            left.remove(family)
        return None

    def tell(self, proposal: Proposal, evaluation: Evaluation) -> None:
        """Pass the outcome to the genome's family; a family that is no longer a member is ignored."""
        family = proposal.genome.family
        if family not in self._members:
            return
        if proposal.genome in self._in_flight:
            self._in_flight.remove(proposal.genome)
        else:
            self._count(family)  # an earlier process asked for it
        self._members[family].tell(proposal, evaluation)
        self._note(self._accounts[family], evaluation)

    def _count(self, family: str) -> None:
        self._proposed += 1
        self._accounts[family].proposed += 1

    def _note(self, account: _Account, evaluation: Evaluation) -> None:
        best = account.best
        if evaluation.is_rankable and evaluation.score_us and not evaluation.is_censored:
            account.correct += 1
            best = min(best, math.log(evaluation.score_us))
        account.bests.append(best)

    def _choose(self, families: list[str], rng: np.random.Generator) -> str:
        opening = [family for family in families if self._is_opening(family)]
        if opening:
            return min(opening, key=lambda family: self._accounts[family].proposed)
        shares = self._shares(families)
        return families[int(rng.choice(len(families), p=shares))]

    def _is_opening(self, family: str) -> bool:
        account = self._accounts[family]
        lead = min(other.best for other in self._accounts.values())
        hopeless = account.correct >= 2 and account.best > lead + math.log(HOPELESS)
        return account.proposed < self._openings[family] and not hopeless

    def _shares(self, families: list[str]) -> np.ndarray:
        prospects = np.array([self._accounts[family].prospect() for family in families])
        trust = np.array([self._trust[family] for family in families])
        if np.isinf(prospects).all():  # nothing works anywhere yet
            return np.asarray(trust / trust.sum())
        weights = trust * np.exp((prospects.min() - prospects) / TEMPERATURE)
        lead = min(account.best for account in self._accounts.values())
        is_near = np.array([self._accounts[each].best <= lead + math.log(HOPELESS) for each in families])
        least = is_near * min(LEAST, 0.5 / len(families))
        shares: np.ndarray = least + (1 - least.sum()) * weights / weights.sum()
        return shares
