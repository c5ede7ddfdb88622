"""Prefetch fragments: the next step's ldmatrix is issued before this step's mma.

Needs: fragments that are loaded just before their use; registers. Against latency of shared memory.
Expected: a small gain with few warps on an SM, a spill with large tiles. Not measured by itself yet.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import MID, REGISTERS, attempt, climb
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("latency", "shared")
PRIOR = MID


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when fragments are prefetched, or registers do not allow it."""
    parent = parents[0]
    return attempt(parent, space, rng, climb(parent, space, "frag_prefetch", "off", "on"), slack=REGISTERS)
