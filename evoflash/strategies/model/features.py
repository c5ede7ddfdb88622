"""Turns genomes into rows of numbers between which distances mean something. Knows no score.

Each row has several views of each gene, a view with columns of its own: the position of a number among its
values, from 0 to 1; which value it is, a column for each, so that all are equally far apart (one may be fast
between neighbours that are slow); how often 2 divides it, for what warps, banks and sectors divide evenly is
often fast alike; and whether it is active, where it may not be. Two values are about 1 apart at most in each
view. Where the space knows proportions of a genome, these stand in the place of what 2 divides, a view each.
How much a view counts is for the model to find out.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evoflash.space import Genome, Param, Proportions, SearchSpace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_MIDDLE = 0.5  # where an inactive gene of numbers stands
_PROPORTION = 0.25  # a proportion that is twice as large lies so far away, for most are powers of two
_APART = np.sqrt(0.5)  # in the column of a value: two values are then 1 apart


class Features:
    """The rows of one space's genomes; `view` is the number of each column's view."""

    def __init__(self, space: SearchSpace) -> None:
        free = [param for param in space.params if len(param.values) > 1 or param.name in space.when]
        views = [
            _views(param, may_be_inactive=param.name in space.when, by_twos=not space.proportions)
            for param in free
        ]
        self._tables = [np.hstack(tables) for tables in views]
        self._codes = [
            (param.name, {(type(value), value): at for at, value in enumerate(param.values)})
            for param in free
        ]
        self._proportions = space.proportions
        self._kept: dict[Genome, tuple[float, ...]] = {}
        widths = [table.shape[1] for tables in views for table in tables]
        widths += [1] * len(self._proportions.names if self._proportions else ())
        self.views = len(widths)
        self.view: Ints = np.repeat(np.arange(self.views), widths)

    def of(self, genomes: Sequence[Genome]) -> Floats:
        """(genomes, columns)."""
        codes = np.full((len(genomes), len(self._codes)), -1, dtype=np.int64)
        for row, genome in enumerate(genomes):
            values = genome.as_dict()
            for column, (name, known) in enumerate(self._codes):
                if name in values:
                    codes[row, column] = known[type(values[name]), values[name]]
        parts = [table[codes[:, at]] for at, table in enumerate(self._tables)]
        if self._proportions:
            found = [self._proportions_of(self._proportions, genome) for genome in genomes]
            names = len(self._proportions.names)
            parts.append(_PROPORTION * np.array(found, dtype=np.float64).reshape(len(genomes), names))
        return np.hstack(parts) if parts else np.zeros((len(genomes), 0))

    def _proportions_of(self, proportions: Proportions, genome: Genome) -> tuple[float, ...]:
        """Kept: a genome is offered in many batches."""
        if genome not in self._kept:
            self._kept[genome] = proportions.of(genome)
        return self._kept[genome]


def _views(param: Param, *, may_be_inactive: bool, by_twos: bool) -> list[Floats]:
    """(values + 1, columns) each: a row for each value, and the last for the inactive gene."""
    size = len(param.values)
    is_number = all(isinstance(value, int) and not isinstance(value, bool) for value in param.values)
    views: list[Floats] = []
    if is_number and size > 1:
        views.append(np.append(np.linspace(0.0, 1.0, size), _MIDDLE)[:, None])
    if not is_number or size > 2:
        views.append(np.vstack([np.eye(size) * _APART, np.zeros(size)]))
    if by_twos and is_number and all(param.values):  # what counts from 0 is no size
        views += _evenness(np.array([_twos(int(value)) for value in param.values]))
    if may_be_inactive:
        views.append(np.append(np.zeros(size), 1.0)[:, None])
    return views


def _evenness(twos: Ints) -> list[Floats]:
    """A view of how often 2 divides each value; none where it rises or falls along them, as positions do."""
    steps = np.diff(twos)
    if not ((steps > 0).any() and (steps < 0).any()):
        return []
    return [np.append((twos - twos.min()) / np.ptp(twos), _MIDDLE)[:, None]]


def _twos(number: int) -> int:
    return (number & -number).bit_length() - 1
