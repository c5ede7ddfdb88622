"""Use tensor cores: P V by matrix fragments as Q K^T is, instead of by scalar multiply-adds.

Needs: a product that is still scalar. Against instruction issue: an mma does the work of 64 warp-wide
multiply-adds. Expected: the largest step of the ladder from scalar code. Not measured by itself yet.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import SMEM, VERY_HIGH, attempt, climb
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("issue", "latency")
PRIOR = VERY_HIGH


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when both products use tensor cores, or there is no room for O."""
    parent = parents[0]
    return attempt(parent, space, rng, climb(parent, space, "pv", "scalar", "wmma"), slack=SMEM)
