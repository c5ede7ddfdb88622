"""Swap scheduler: another order of the query tiles together with the other kind of grid.

Needs: tile_order and schedule. Against uneven causal work and L2 misses: which order is best depends on
who takes the tiles; what either brings into play, such as the size of a section, is drawn at random.
Expected: what the order and the grid bring together and neither does alone. Keys stay whole: split_kv divides
them.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import MID, attempt, draw_new_genes, switch
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("l2", "dram", "launch", "latency")
PRIOR = MID


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the family has one order or one schedule."""
    parent = parents[0]
    orders, grids = switch(parent, space, "tile_order"), switch(parent, space, "schedule")
    brings_splits = "kv_splits" in space.names and "kv_splits" not in parent.as_dict()
    whole = [{"kv_splits": 1} if brings_splits and grid["schedule"] == "grid" else {} for grid in grids]
    both = [{**order, **grid, **rest} for order in orders for grid, rest in zip(grids, whole, strict=True)]
    return attempt(parent, space, rng, [draw_new_genes(parent, space, rng, change) for change in both])
