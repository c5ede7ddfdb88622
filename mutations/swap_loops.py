"""Swap loops: queries outside and keys inside, or a tile of keys meets all bands of queries; more bands.

Needs: loop_order, or bands that a CTA can take. Against L2 and DRAM traffic: with the keys outside, a
tile of K and V serves every band before the next is fetched. Expected: less traffic for more shared
memory; seldom a gain beside larger row tiles.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import LOW, SMEM, attempt, shift, switch
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("l2", "dram")
PRIOR = LOW


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the family has one loop order."""
    parent = parents[0]
    swapped = [*switch(parent, space, "loop_order"), shift(parent, space, bands=1)]
    return attempt(parent, space, rng, swapped, slack=SMEM)
