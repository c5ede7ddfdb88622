"""Join warpgroups over KV: those that divided the keys take query rows of their own again, or leave.

Needs: kv_groups above one. Against L2 traffic and instruction issue: each tile serves more rows, and
nothing is merged. Expected: a gain once there are more query tiles than places on the SMs; the reverse of
splitting where tiles are few. Not measured by itself yet.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import MID, refit, shift
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("l2", "issue", "shared")
PRIOR = MID
SLACK = ("block_n", "k_stages", "v_stages")


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when every warpgroup has rows of its own."""
    parent = parents[0]
    fewer = [shift(parent, space, kv_groups=-1), shift(parent, space, kv_groups=-2)]
    gone = [{**less, "consumers": rows} for less in fewer if less for rows in (1, 2)]
    return refit(parent, space, rng, [*fewer, *gone], slack=SLACK)
