"""Split KV over the grid: several CTAs share the keys of a query tile, and a second kernel combines them.

Needs: kv_splits; a split must outlast its ring, so stages and the tile of keys give way, or query heads that
share keys a tile of their own; a cluster, or CTAs that take piece after piece, where a family splits neither.
Against grids that leave SMs empty: few query rows over many keys. Expected: large for decoding shapes; in
prefill the second kernel costs 2 us or more, and taking a split back wins them.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import MID, attempt, set_back, shift, switch
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("latency", "launch")
PRIOR = MID
SHORTER = (("k_stages", -1), ("block_n", -1), ("kv_split_warps", -1), ("v_stages", -1))


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the family does not split over the grid."""
    parent = parents[0]
    if "kv_splits" in space.names and "kv_splits" not in parent.as_dict():
        alone = set_back(parent, cluster=1, schedule="grid")
        more = [{**alone, "kv_splits": count} for count in space.param("kv_splits").values[1:]]
        back = []
    else:
        steps = [shift(parent, space, kv_splits=way) for way in (1, 2, 3)]
        more = [dict(step) for step in steps if step]
        back = [shift(parent, space, kv_splits=-1), *switch(parent, space, "combine_threads")]
    packed = [{**count, **pack} for count in more for pack in switch(parent, space, "pack_gqa", "on")]
    return attempt(parent, space, rng, [*more, *packed, *back], slack=SHORTER)
