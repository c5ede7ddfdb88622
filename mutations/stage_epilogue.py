"""Stage the epilogue: O goes through shared memory and leaves in whole rows, or directly from the fragments.

Needs: an epilogue gene. Against short CTAs whose stores are scattered. Expected: 1 to 8 % of a short
CTA's time, nothing for long sequences.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import MID, SMEM, attempt, switch
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("launch", "dram", "l2", "latency")
PRIOR = MID


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the family has one epilogue."""
    parent = parents[0]
    return attempt(parent, space, rng, switch(parent, space, "epilogue", "staged", "direct"), slack=SMEM)
