"""Parallelise reductions: row maximum and sum by warp shuffles over more lanes, instead of serially.

Needs: a serial reduction, or rows that few lanes share. Against latency: a serial reduction makes every
lane wait for one, through shared memory. Expected: a step of the ladder from scalar code. Not measured by
itself yet.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import HIGH, attempt, climb, shift
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("latency", "issue", "shared")
PRIOR = HIGH
FEWER = (("vec", -1), ("batch", -1), ("unroll", -1))


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the reductions are shuffles over all the lanes there are."""
    parent = parents[0]
    shuffled = [
        c for name in ("reduction", "softmax") for c in climb(parent, space, name, "serial", "shuffle")
    ]
    return attempt(parent, space, rng, [*shuffled, shift(parent, space, lanes_per_row=1)], slack=FEWER)
