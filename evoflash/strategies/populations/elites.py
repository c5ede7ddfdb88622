"""Elites: the best genomes of a search, of several tiles. In memory, rebuilt by telling.

Knows scores and behaviour cells; knows neither operators nor budgets.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from evoflash.evaluation import Evaluation
from evoflash.space import Genome, Value


@dataclass(frozen=True, slots=True)
class Elite:
    """A genome that may breed."""

    genome: Genome
    score_us: float


def may_breed(evaluation: Evaluation) -> bool:
    """Whether its time ranks beside those of proven kernels, fully timed, and it is no duplicate."""
    return evaluation.is_rankable and not evaluation.is_censored and not evaluation.duplicate_of


@dataclass(slots=True)
class Population:
    """At most `size` elites, fastest first, and at most `per_cell` with the same values of the `cell` genes.

    Without that cap the relatives of one good genome soon fill the population, and a search that sits on
    the wrong tile stays there. An empty `cell` sets no cap.
    """

    cell: tuple[str, ...] = ()
    size: int = 8
    per_cell: int = 2
    elites: list[Elite] = field(default_factory=list)

    def add(self, evaluation: Evaluation, parents: Sequence[str] = ()) -> bool:
        """Whether the genome may now breed: timed, and fast enough; who its parents were does not matter."""
        if not may_breed(evaluation) or evaluation.score_us is None:
            return False
        new = Elite(evaluation.genome, evaluation.score_us)
        ranked = sorted([*self.elites, new], key=lambda elite: elite.score_us)
        self.elites = self._spread(ranked)
        return new in self.elites

    def _spread(self, ranked: list[Elite]) -> list[Elite]:
        kept: list[Elite] = []
        taken: Counter[tuple[Value | None, ...]] = Counter()
        for elite in ranked:
            values = elite.genome.as_dict()
            where = tuple(values.get(name) for name in self.cell)
            if not where or taken[where] < self.per_cell:
                kept.append(elite)
                taken[where] += 1
        return kept[: self.size]

    def parents(self, count: int, rng: np.random.Generator) -> list[Elite]:
        """`count` different elites, the r-th fastest with weight 1/r; fewer when there are fewer."""
        weights = 1.0 / np.arange(1, len(self.elites) + 1)
        drawn = rng.choice(
            len(self.elites), size=min(count, len(self.elites)), replace=False, p=weights / weights.sum()
        )
        return [self.elites[int(i)] for i in drawn]
