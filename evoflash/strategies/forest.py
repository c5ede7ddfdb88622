"""A random forest for regression on rows of small whole numbers, in NumPy; knows no genome and no search.

All trees grow together, one level at a time, since a loop in Python over their nodes would take far longer.
Cuts are drawn at random, as in extremely randomized trees (P. Geurts et al., Machine Learning 63, 2006), and
each tree sees a bootstrap sample (L. Breiman, Machine Learning 45, 2001).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TREES = 48
CUTS = 16  # random cuts of a node, of which the best is taken
DEPTH = 12  # levels below the root

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Forest:
    """Nodes of all trees in flat arrays; the first `trees` nodes are the roots.

    A row goes to node `below` where its `column` is at most the threshold, else to the node after that one.
    A leaf has an infinite threshold and is its own `below`.
    """

    trees: int
    column: Ints
    threshold: Floats
    below: Ints
    mean: Floats  # of the targets in the node

    def leaves(self, rows: Ints) -> Ints:
        """(trees, rows): the node at which each row ends."""
        everything = np.arange(len(rows))
        node = np.repeat(np.arange(self.trees)[:, None], len(rows), axis=1)
        while True:
            after = self.below[node] + (rows[everything, self.column[node]] > self.threshold[node])
            if np.array_equal(after, node):
                return node
            node = after


@dataclass(frozen=True, slots=True)
class _Level:
    """The nodes of one level, numbered from 0, and the rows in them; a row is in it once for each tree."""

    size: int
    node: Ints
    row: Ints
    weight: Floats

    def inside(self, kept: NDArray[np.bool_]) -> "_Level":
        return _Level(self.size, self.node[kept], self.row[kept], self.weight[kept])


@dataclass(frozen=True, slots=True)
class _Cuts:
    """One cut for each node of a level; `useful` where it lowers the squared error."""

    column: Ints
    threshold: Floats
    useful: NDArray[np.bool_]


def grow(
    rows: Ints,
    targets: Floats,
    rng: np.random.Generator,
    *,
    trees: int = TREES,
    cuts: int = CUTS,
    depth: int = DEPTH,
) -> Forest:
    """The forest that predicts `targets` (n,) from `rows` (n, columns); n is at least 1."""
    weights = rng.multinomial(len(rows), np.full(len(rows), 1 / len(rows)), size=trees).astype(np.float64)
    node, row = np.nonzero(weights)
    level = _Level(trees, node, row, weights[node, row])
    grown: list[tuple[Ints, Floats, Ints, Floats]] = []
    first = 0
    for at in range(depth + 1):
        best = _best_cuts(level, rows, targets, rng, count=cuts if at < depth else 0)
        grown.append(_nodes(level, best, targets, first))
        if not best.useful.any():
            break
        first += level.size
        level = _next(level, best, rows)
    return Forest(trees, *(np.concatenate(part) for part in zip(*grown, strict=True)))


def _nodes(level: _Level, cuts: _Cuts, targets: Floats, first: int) -> tuple[Ints, Floats, Ints, Floats]:
    """The level's part of a Forest's arrays; `first` is the number of its first node."""
    mean = np.bincount(level.node, level.weight * targets[level.row], level.size) / np.bincount(
        level.node, level.weight, level.size
    )
    below = first + np.arange(level.size)
    below[cuts.useful] = first + level.size + 2 * np.arange(cuts.useful.sum())
    return cuts.column, np.where(cuts.useful, cuts.threshold, np.inf), below, mean


def _best_cuts(level: _Level, rows: Ints, targets: Floats, rng: np.random.Generator, *, count: int) -> _Cuts:
    """The best of `count` random cuts of each node."""
    sizes = np.bincount(level.node, minlength=level.size)
    level = level.inside(sizes[level.node] > 1)  # a single row cannot be cut
    if not count or not level.row.size:
        return _Cuts(np.zeros(level.size, np.int64), np.zeros(level.size), np.zeros(level.size, bool))
    column = rng.integers(rows.shape[1], size=(count, level.size))
    one, other = (rows[_members(level, rng, count), column] for _ in range(2))
    low, high = np.minimum(one, other), np.maximum(one, other)
    threshold = np.floor(low + rng.random(low.shape) * (high - low)) + 0.5
    above = rows[level.row, column[:, level.node]] > threshold[:, level.node]
    gained = np.where(high > low, _explained(level, above, targets), 0.0)
    best, nodes = gained.argmax(axis=0), np.arange(level.size)
    return _Cuts(column[best, nodes], threshold[best, nodes], gained[best, nodes] > 1e-9)


def _members(level: _Level, rng: np.random.Generator, count: int) -> Ints:
    """(count, nodes): rows of each node, drawn at random."""
    order = np.argsort(level.node, kind="stable")
    sizes = np.bincount(level.node, minlength=level.size)
    starts = np.cumsum(sizes) - sizes
    drawn = (rng.random((count, level.size)) * sizes).astype(np.int64)
    rows: Ints = level.row[order[np.minimum(starts + drawn, len(order) - 1)]]
    return rows


def _explained(level: _Level, above: NDArray[np.bool_], targets: Floats) -> Floats:
    """(cuts, nodes): by how much each cut lowers the sum of squared errors."""
    cuts = len(above)
    side = (np.arange(cuts)[:, None] * level.size + level.node) * 2 + above
    weight = np.broadcast_to(level.weight, above.shape).ravel()
    value = np.broadcast_to(level.weight * targets[level.row], above.shape).ravel()
    shape, size = (cuts, level.size, 2), 2 * cuts * level.size
    weights = np.bincount(side.ravel(), weight, size).reshape(shape)
    sums = np.bincount(side.ravel(), value, size).reshape(shape)
    apart = (sums**2 / np.maximum(weights, 1e-12)).sum(axis=2)
    together = sums.sum(axis=2) ** 2 / np.maximum(weights.sum(axis=2), 1e-12)
    explained: Floats = apart - together
    return explained


def _next(level: _Level, cuts: _Cuts, rows: Ints) -> _Level:
    """The two children of each node that was cut."""
    inner = level.inside(cuts.useful[level.node])
    child = 2 * (np.cumsum(cuts.useful) - 1)
    above = rows[inner.row, cuts.column[inner.node]] > cuts.threshold[inner.node]
    return _Level(2 * int(cuts.useful.sum()), child[inner.node] + above, inner.row, inner.weight)
