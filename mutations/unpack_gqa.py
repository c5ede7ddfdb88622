"""Unpack GQA: a tile holds rows of one query head again, and the heads of a group run side by side.

Needs: packed heads. Against instruction issue and latency: a row's position is its index again, and a
tile under the causal mask ends at one diagonal. Expected: a small gain for long queries, whose tiles are
full without packing; a loss for decoding. Not measured by itself yet.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import LOW, attempt, climb, switch
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("issue", "latency")
PRIOR = LOW


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the heads are not packed."""
    parent = parents[0]
    words = climb(parent, space, "pack_gqa", "on", "off")
    orders = [{}, *switch(parent, space, "tile_order", "heads_first")]
    return attempt(parent, space, rng, [{**word, **order} for word in words for order in orders])
