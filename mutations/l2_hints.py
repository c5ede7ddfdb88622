"""L2 hints: how far ahead a copy asks L2 to fetch, what L2 should keep, or whether it passes through L1.

Needs: a copy with hints. Against DRAM and L2 latency. Expected: one per cent either way.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import LOW, attempt, climb, switch
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("dram", "l2")
PRIOR = LOW


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the family gives no such hint."""
    parent = parents[0]
    around_l1 = climb(parent, space, "copy", "async_ca", "async_cg")
    through_l1 = climb(parent, space, "copy", "async_cg", "async_ca")
    names = ("copy_hint", "l2_hints", "l2_promotion")
    hints = [change for name in names for change in switch(parent, space, name)]
    return attempt(parent, space, rng, [*hints, *around_l1, *through_l1])
