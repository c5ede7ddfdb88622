"""Reverse order: the query tiles are started from the last to the first, or another way round.

Needs: tile_order. Against uneven causal work and L2 misses: longest tiles first balance a causal grid,
sections of heads keep live keys in L2, in a size drawn at random. Expected: +13, 8 and 3 % for causal
sequences of 2k, 4k and 8k (modelled); without a mask nothing while K and V fit in L2. All heads side by side
lose where their keys do not fit: 293 us against 228 in sections at 2k and head_dim 128, causal, on an H200.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import HIGH, attempt, draw_new_genes, switch
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("l2", "dram", "launch", "latency")
PRIOR = HIGH


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the family has one order."""
    parent = parents[0]
    orders = [draw_new_genes(parent, space, rng, order) for order in switch(parent, space, "tile_order")]
    return attempt(parent, space, rng, orders)
