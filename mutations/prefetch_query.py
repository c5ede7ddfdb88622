"""Prefetch the query: a persistent grid whose next query block is on its way while this one is computed.

Needs: a producer; a second slot of Q in shared memory, which rings and tile pay. Groups of keys and clusters
are given up, for they end with a CTA; query blocks are taken in turn or on demand. Against launch and
latency: the prologue, about 0.7 of a step for each query block, is hidden, and so is the store of O where it
is staged. Expected: 4 % at 2k and head_dim 128 without a mask, 3 % at 8k and 64 (402 to 385 us and 931 to 904
on an H200); a loss where every tile has a place on an SM anyway.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import HIGH, refit, set_back
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("launch", "latency")
PRIOR = HIGH
SLACK = ("block_n", "k_stages", "v_stages")


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None without a producer, or when two query blocks have slots already."""
    parent = parents[0]
    values = parent.as_dict()
    if values.get("producer") == "self" or values.get("q_stages") == 2:
        return None
    ends = set_back(parent, cluster=1, kv_groups=1)
    ahead = [{"schedule": word, "q_stages": 2, **ends} for word in ("persistent", "dynamic")]
    return refit(parent, space, rng, ahead, slack=SLACK)
