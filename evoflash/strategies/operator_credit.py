"""How well each mutation operator has done, by kernel family and bottleneck; chooses nothing by itself.

Credit starts from the operators' priors and follows the measured gains of their children. Where little is
known of a bottleneck the family's figure stands in for it, and where little is known of the family the prior.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from evoflash.evaluation import Evaluation

FULL_GAIN = math.log(1.10)  # a child faster by a tenth earns the whole reward
FASTER, SLOWER = 0.4, 0.02  # what any faster child earns, and any correct one
FIT = 2.0  # a prior counts so much more against a bottleneck that the operator is meant for
MEAN = 0.15  # the reward that a prior of one expects, near the mean of made-up and recorded spaces
PRIOR_WEIGHT = 6.0  # uses that the prior, or the family's figure, counts for
SHARPNESS = 2.0  # shares go with this power of the expected reward: 1 tells operators apart too little
FLOOR = 0.1  # of an equal share: what fails early may help late
CONTROL = 0.1  # share of the children whose operator is drawn uniformly: the control arm


@dataclass(frozen=True, slots=True)
class Trait:
    """What an operator's file says of it: initial weight, and the bottlenecks that it is meant for."""

    prior: float = 1.0
    bottlenecks: tuple[str, ...] = ()


@dataclass(slots=True)
class _Tally:
    uses: int = 0
    reward: float = 0.0

    def mean(self, before: float) -> float:
        """The mean reward, `before` counting for PRIOR_WEIGHT uses."""
        return (self.reward + PRIOR_WEIGHT * before) / (self.uses + PRIOR_WEIGHT)


def diagnosis(evaluation: Evaluation) -> str:
    """What holds a kernel back: spills where it has any, else the model's bound; empty when unknown."""
    return "spills" if any(build.spill_bytes for build in evaluation.builds) else evaluation.bound


def gain(parent_us: float, child_us: float) -> float:
    """The log of the speed-up of a child over its parent; negative when it is slower."""
    return math.log(parent_us / child_us)


def reward(evaluation: Evaluation, parent_us: float | None) -> float:
    """From 0 for a failure or a duplicate, over a little for a correct child, to 1 for a tenth faster."""
    us = evaluation.learnt_us
    if us is None or evaluation.duplicate_of:
        return 0.0
    if parent_us is None or not evaluation.is_rankable or evaluation.is_censored or us >= parent_us:
        return SLOWER
    return FASTER + (1 - FASTER) * min(1.0, gain(parent_us, us) / FULL_GAIN)


def is_control(seed: int, position: int) -> bool:
    """Whether the proposal at this position of a strategy's own sequence belongs to the control arm.

    It depends on nothing else, so that a report can tell the arms apart from a run's stored history.
    """
    return bool(np.random.default_rng([seed, position, 1]).random() < CONTROL)


@dataclass(slots=True)
class Credit:
    """The operators' tallies, and the shares of the proposals that these earn them."""

    traits: Mapping[str, Trait]
    _tallies: defaultdict[tuple[str, str, str], _Tally] = field(default_factory=lambda: defaultdict(_Tally))

    def learn(self, family: str, bound: str, operator: str, earned: float) -> None:
        """One child's reward; an operator whose file is gone is ignored."""
        if operator not in self.traits:
            return
        for level in {(family, ""), (family, bound)}:
            tally = self._tallies[*level, operator]
            tally.uses += 1
            tally.reward += earned

    def expected(self, family: str, bound: str, operator: str) -> float:
        """The reward expected of the operator's next child of a parent of that family and bound."""
        trait = self.traits[operator]
        before = MEAN * trait.prior * (FIT if bound in trait.bottlenecks else 1.0)
        of_family = self._tally(family, "", operator).mean(before)
        return self._tally(family, bound, operator).mean(of_family) if bound else of_family

    def shares(self, family: str, bound: str, operators: Sequence[str]) -> np.ndarray:
        """The chance of each operator, by what is expected of it; they add up to 1."""
        expected = np.array([self.expected(family, bound, operator) for operator in operators]) ** SHARPNESS
        floor = FLOOR / len(operators)
        shares: np.ndarray = floor + (1 - FLOOR) * expected / expected.sum()
        return shares

    def _tally(self, family: str, bound: str, operator: str) -> _Tally:
        return self._tallies.get((family, bound, operator)) or _Tally()
