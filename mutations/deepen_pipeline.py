"""Deepen pipeline: one more stage for K, for V, or for both.

Needs: a ring (k_stages, v_stages, stages) below its full depth, or tiles that are not yet copied
asynchronously; room in shared memory: CTAs per SM and block_n give way. Against memory latency. Expected:
+5 % from one stage to two, next to nothing beyond three or four.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import MID, attempt, shift
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("latency", "l2", "dram")
PRIOR = MID
SPACE_PER_CTA = (("ctas_per_sm", -1), ("block_n", -1))


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the rings are as deep as they get, or nothing makes room for more."""
    parent = parents[0]
    deeper = [
        shift(parent, space, k_stages=1),
        shift(parent, space, v_stages=1),
        shift(parent, space, k_stages=1, v_stages=1),
        shift(parent, space, stages=1),
    ]
    return attempt(parent, space, rng, deeper, slack=SPACE_PER_CTA)
