"""Keep tiles in shared memory: K and V come in once for the CTA instead of once for each row or warp.

Needs: K and V read from global memory where they are used. Against L2, DRAM and latency: each key is
fetched once for all rows of the CTA. Expected: a gain for many rows a CTA, a loss for few. Not measured
by itself yet.
"""

import itertools
from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import HIGH, SMEM, attempt, climb
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("l2", "dram", "latency")
PRIOR = HIGH


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when K and V are in shared memory, or their tile does not fit there."""
    parent = parents[0]
    homes = [climb(parent, space, "kv_home", "global", home) for home in ("smem", "smem_async")]
    return attempt(parent, space, rng, itertools.chain(*homes), slack=SMEM)
