"""What evolution uses of gene effects and nogoods: which child is worth trying. Learns them from outcomes.

They are computed again after every few outcomes, from these alone, so that a resumed search goes on as an
unbroken one does. Proposes nothing.
"""

import math
from collections.abc import Sequence

from evoflash.evaluation import Evaluation
from evoflash.space import Genome, Value
from evoflash.strategies.model.gene_effects import GeneEffect, effects, nogoods

REFRESHED = 20  # outcomes after which effects are computed again
DOUBT = 5  # kernels or pairs after which half of an effect is believed


class Insight:
    """Effects and nogoods of what was told."""

    def __init__(self) -> None:
        self._told: list[Evaluation] = []
        self._learnt = 0
        self._gains: dict[tuple[str, Value], float] = {}
        self._nogoods: list[frozenset[tuple[str, Value]]] = []

    def tell(self, evaluation: Evaluation) -> None:
        """Remember an outcome."""
        self._told.append(evaluation)

    def favourite(self, parent: Genome, children: Sequence[Genome]) -> Genome:
        """The child whose new genes promise most; one that must fail only where all must. At least one."""
        self._refresh()
        own = set(parent.values)
        return min(children, key=lambda child: (self._fails(child), self._change(own, child)))

    def _refresh(self) -> None:
        learnt = len(self._told) // REFRESHED * REFRESHED
        if learnt != self._learnt:
            self._learnt, told = learnt, self._told[:learnt]
            self._gains = {(effect.gene, effect.value): _believed(effect) for effect in effects(told)}
            self._nogoods = [frozenset(nogood.values) for nogood in nogoods(told)]

    def _fails(self, genome: Genome) -> bool:
        values = set(genome.values)
        return any(nogood <= values for nogood in self._nogoods)

    def _change(self, own: set[tuple[str, Value]], child: Genome) -> float:
        new = set(child.values)
        after, before = (sum(self._gains.get(each, 0.0) for each in part) for part in (new - own, own - new))
        return after - before


def _believed(effect: GeneEffect) -> float:
    return math.log(effect.ratio) * effect.n / (effect.n + DOUBT)
