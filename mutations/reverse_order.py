"""Reverse order: the query tiles are started from the last to the first, or another way round.

Needs: tile_order. Against uneven causal work and L2 misses: longest tiles first balance a causal grid,
all heads' tiles side by side or in sections keep live keys in L2. Expected: +13, 8 and 3 % for causal
sequences of 2k, 4k and 8k (modelled); without a mask nothing while K and V fit in L2.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.moves import HIGH, attempt, switch
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("l2", "dram", "launch", "latency")
PRIOR = HIGH


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the family has one order."""
    parent = parents[0]
    return attempt(parent, space, rng, switch(parent, space, "tile_order"))
