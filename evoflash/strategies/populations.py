"""Keeps the good genomes of a search and says which of them may be parents. Proposes nothing.

    single      the best genome alone
    elites      the best few, of several tiles
    islands     several populations side by side, whose best are copied to the next island now and then
    map_elites  the fastest of each kind of kernel, by what was measured of it

All are kept in memory and rebuilt by telling them outcomes: the store is the one truth.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from evoflash.errors import UsageError
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
        return _some_of(self.elites, 1.0 / np.arange(1, len(self.elites) + 1), count, rng)


def _some_of(
    elites: Sequence[Elite], weights: np.ndarray, count: int, rng: np.random.Generator
) -> list[Elite]:
    size = min(count, len(elites))
    drawn = rng.choice(len(elites), size=size, replace=False, p=weights / weights.sum())
    return [elites[int(at)] for at in drawn]


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


REGISTERS, SMEM_BYTES = 32, 8192  # width of a cell


@dataclass(slots=True)
class MapElites:
    """One genome a cell; a slow cell's genome is a parent more seldom, but it is never driven out."""

    cell: tuple[str, ...] = ()
    _cells: dict[Hashable, Elite] = field(default_factory=dict)

    @property
    def elites(self) -> list[Elite]:
        """The genome of each cell, fastest first."""
        return sorted(self._cells.values(), key=lambda elite: elite.score_us)

    def add(self, evaluation: Evaluation, parents: Sequence[str] = ()) -> bool:
        """Whether it is the fastest of its cell."""
        if not may_breed(evaluation) or evaluation.score_us is None:
            return False
        where, new = _kind(evaluation, self.cell), Elite(evaluation.genome, evaluation.score_us)
        if where in self._cells and self._cells[where].score_us <= new.score_us:
            return False
        self._cells[where] = new
        return True

    def parents(self, count: int, rng: np.random.Generator) -> list[Elite]:
        """`count` different elites, the r-th fastest with weight 1/sqrt(r); fewer when there are fewer."""
        elites = self.elites
        return _some_of(elites, 1.0 / np.sqrt(np.arange(1, len(elites) + 1)), count, rng)


def _kind(evaluation: Evaluation, cell: tuple[str, ...]) -> Hashable:
    if not evaluation.builds:
        values = evaluation.genome.as_dict()
        return evaluation.bound, tuple(values.get(name) for name in cell)
    build = max(evaluation.builds, key=lambda build: build.registers)
    smem = build.smem_static_bytes // SMEM_BYTES
    return evaluation.bound, build.registers // REGISTERS, smem, build.spill_bytes > 0


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
