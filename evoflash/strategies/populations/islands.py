"""Islands: populations side by side, whose best are copied to the next island now and then; proposes nothing.

A child belongs to its first parent's island, what has no parents to each island in turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from evoflash.evaluation import Evaluation
from evoflash.strategies.populations.elites import Elite, Population

ISLANDS, SIZE = 4, 4  # their number, and the genomes on each
MIGRATION = 25  # outcomes after which the best of each island is copied to the next


@dataclass(slots=True)
class Islands:
    """Populations with little exchange between them: one that is ahead does not drive out the others."""

    cell: tuple[str, ...] = ()
    _islands: list[Population] = field(default_factory=list)
    _home: dict[str, int] = field(default_factory=dict)  # the island of each genome, by its id
    _best: list[Evaluation | None] = field(default_factory=lambda: [None] * ISLANDS)
    _told: int = 0

    def __post_init__(self) -> None:
        self._islands = [Population(cell=self.cell, size=SIZE) for _ in range(ISLANDS)]

    @property
    def elites(self) -> list[Elite]:
        """Those of all islands, fastest first; one that has come to several stands there once."""
        all_of_them = (elite for island in self._islands for elite in island.elites)
        return sorted(dict.fromkeys(all_of_them), key=lambda elite: elite.score_us)

    def add(self, evaluation: Evaluation, parents: Sequence[str] = ()) -> bool:
        """Whether the genome may now be a parent on its island."""
        home = self._home.get(parents[0], self._told % ISLANDS) if parents else self._told % ISLANDS
        self._home[evaluation.genome.id] = home
        self._told += 1
        kept = self._settle(evaluation, home)
        if self._told % MIGRATION == 0:
            for island, best in enumerate(list(self._best)):
                if best is not None:
                    self._settle(best, (island + 1) % ISLANDS)
        return kept

    def _settle(self, evaluation: Evaluation, island: int) -> bool:
        if any(elite.genome == evaluation.genome for elite in self._islands[island].elites):
            return False
        kept = self._islands[island].add(evaluation)
        if kept and self._islands[island].elites[0].genome == evaluation.genome:
            self._best[island] = evaluation
        return kept

    def parents(self, count: int, rng: np.random.Generator) -> list[Elite]:
        """`count` different elites of one island, drawn uniformly among those that have any."""
        inhabited = [island for island in self._islands if island.elites]
        return inhabited[int(rng.integers(len(inhabited)))].parents(count, rng)
