"""Multicast: the CTAs of a cluster fetch each tile of K and V together, a share each; or no longer.

Needs: a producer; one CTA per SM and a tile that divides into whole swizzle patterns. Groups of keys, a
persistent grid and speculative maxima are given up. The order of the query tiles says which of them
share. Against L2 traffic: each byte is read once for two or four CTAs. Expected: a loss more often than
not, for the CTAs run in lock-step: FlashAttention-3 700 TFLOPS with and 730 without, and 8 and 14 % more
time in the two rows tried on an H200; ending it wins that back.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import LOW, refit, set_back, shift, switch
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("l2", "dram")
PRIOR = LOW


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None without a producer, when no tile can be shared, or when the cluster divides the keys."""
    parent = parents[0]
    if "cluster_use" not in space.names:  # it always divides them
        return None
    if parent.as_dict().get("cluster_use", "multicast") != "multicast":
        return None
    wider = [shift(parent, space, cluster=1), shift(parent, space, cluster=2)]
    alone = set_back(parent, ctas_per_sm=1, kv_groups=1)
    if parent.as_dict().get("rescale") == "speculative":
        alone |= {"rescale": "lazy", "lazy_tau": 8}
    orders = [{}, *switch(parent, space, "tile_order")]
    together = [{**count, **alone, **order} for count in wider if count for order in orders]
    apart = [shift(parent, space, cluster=-1)] * max(1, len(together))  # as likely as the other way
    return refit(parent, space, rng, [*together, *apart], slack=("block_n",))
