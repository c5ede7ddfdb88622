"""Who may be a parent: ways to keep the good genomes of a search. Rebuilt by telling; the store is the truth.

`single` is the best genome alone.

    elites      the best few, of several tiles
    islands     several populations that exchange their best now and then
    map_elites  the best of each kind of kernel, by what was measured of it
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from evoflash.errors import UsageError
from evoflash.evaluation import Evaluation
from evoflash.strategies.populations.elites import Elite, Population
from evoflash.strategies.populations.islands import Islands
from evoflash.strategies.populations.map_elites import MapElites

POPULATIONS = ("single", "elites", "islands", "map-elites")


class Parents(Protocol):
    """What evolution needs of a population."""

    @property
    def elites(self) -> Sequence[Elite]:
        """Those that may be parents, fastest first."""

    def add(self, evaluation: Evaluation, parents: Sequence[str] = ()) -> bool:
        """Whether the genome may now be a parent; `parents` are the ids of its own."""

    def parents(self, count: int, rng: np.random.Generator) -> list[Elite]:
        """`count` different ones; fewer when there are fewer."""


def make_population(name: str, *, cell: tuple[str, ...] = (), size: int = 8) -> Parents:
    """An empty population; `cell` are the genes of a tile, `size` that of `elites`. UsageError if unknown."""
    if name == "single":
        return Population(size=1)
    if name == "elites":
        return Population(cell=cell, size=size)
    if name == "islands":
        return Islands(cell=cell)
    if name == "map-elites":
        return MapElites(cell=cell)
    raise UsageError(f"no population is called '{name}': use {' or '.join(POPULATIONS)}.")
