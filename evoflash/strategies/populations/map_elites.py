"""MAP-Elites: the fastest genome of each kind of kernel, by what was measured of it; proposes nothing.

J.-B. Mouret, J. Clune, Illuminating search spaces by mapping elites, 2015. Kinds are told apart by registers,
static shared memory, spills and what limits the kernel; where nothing was compiled (a recorded space), by the
genes of its tile.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from evoflash.evaluation import Evaluation
from evoflash.strategies.populations.elites import Elite, may_breed

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
        weights = 1.0 / np.sqrt(np.arange(1, len(elites) + 1))
        size = min(count, len(elites))
        drawn = rng.choice(len(elites), size=size, replace=False, p=weights / weights.sum())
        return [elites[int(at)] for at in drawn]


def _kind(evaluation: Evaluation, cell: tuple[str, ...]) -> Hashable:
    if not evaluation.builds:
        values = evaluation.genome.as_dict()
        return evaluation.bound, tuple(values.get(name) for name in cell)
    build = max(evaluation.builds, key=lambda build: build.registers)
    smem = build.smem_static_bytes // SMEM_BYTES
    return evaluation.bound, build.registers // REGISTERS, smem, build.spill_bytes > 0
