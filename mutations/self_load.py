"""Self-load: a consumer asks for the copies, and the producer's threads and registers are free.

Needs: a producer warp or warpgroup. A cluster, a persistent grid and a second query slot go with it; V's
ring takes a second stage where products overlap. Against low occupancy and spills: 128 threads a CTA
instead of 256 let one more CTA on the SM. Expected: from 1.07 to 0.91 of cuDNN's time in a published
kernel of head_dim 64 with one consumer; a loss at head_dim 128 with two.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import MID, climb, refit, set_back, shift
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("latency", "launch", "spills")
PRIOR = MID
SLACK = ("block_n", "v_stages")


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when consumers load for themselves."""
    parent = parents[0]
    words = climb(parent, space, "producer", "warpgroup", "warp", "self")
    more = [{}, shift(parent, space, ctas_per_sm=1) or {}]
    shared = parent.as_dict().get("cluster_use") in ("multicast", "both")
    apart = set_back(parent, cluster=1) if shared else {}  # a share of each tile is a producer's to fetch
    to_self = [{**word, **(apart if word["producer"] == "self" else {})} for word in words]
    lighter = [{**word, **ctas} for word in to_self for ctas in more]
    return refit(parent, space, rng, lighter, slack=SLACK)
