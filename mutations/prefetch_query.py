"""Prefetch the query: a persistent grid whose next query block is on its way while this one is computed.

Needs: a producer; a second slot of Q in shared memory, which rings and tile pay. Groups of keys, clusters
and speculative maxima are given up, for they end with a CTA. Against launch and latency: the prologue,
about 0.7 of a step for each query block, is hidden. Expected: 4 to 6 % at 2k and head_dim 128 (modelled),
most under a causal mask; a loss where every tile has a place on an SM anyway.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.moves import HIGH
from evoflash.refit import refit, set_back
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("launch", "latency")
PRIOR = HIGH
WALLS = ("block_n", "k_stages", "v_stages")


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None without a producer, or when two query blocks have slots already."""
    parent = parents[0]
    values = parent.as_dict()
    if values.get("producer") == "self" or values.get("q_stages") == 2:
        return None
    ends = set_back(parent, cluster=1, kv_groups=1)
    if values.get("rescale") == "speculative":
        ends |= {"rescale": "lazy", "lazy_tau": 8}
    ahead = {"schedule": "persistent", "q_stages": 2, **ends}
    return refit(parent, space, rng, [ahead], follows=WALLS)
