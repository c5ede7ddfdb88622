"""Hand out the pieces: persistent CTAs ask a counter for their next query block, which comes ahead of time.

Needs: a producer and query blocks that are not handed out yet; a second slot of Q in shared memory, which
rings and tile pay. Groups of keys and clusters are given up. The order may change to sections of heads, for
CTAs that are free at the same time then want the same keys. Against waves and latency: no CTA waits for the
slowest, whatever it drew. Expected: 5 to 20 % in causal rows, where query blocks differ in length (241 to
228 us at 2k and head_dim 128 on an H200, in sections; a loss with all heads side by side); 3 to 4 % in full
ones.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import HIGH, draw_new_genes, refit, set_back, switch
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("launch", "latency", "l2")
PRIOR = HIGH
SLACK = ("block_n", "k_stages", "v_stages")


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None without a producer, or when the pieces are handed out already."""
    parent = parents[0]
    values = parent.as_dict()
    if values.get("producer") == "self" or values.get("schedule") == "dynamic":
        return None
    alone = set_back(parent, cluster=1, kv_groups=1)
    sections = switch(parent, space, "tile_order", "sections")
    orders = [{}, *(draw_new_genes(parent, space, rng, order) for order in sections)]
    ahead = [{"schedule": "dynamic", "q_stages": 2, **alone, **order} for order in orders]
    return refit(parent, space, rng, ahead, slack=SLACK)
