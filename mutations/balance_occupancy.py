"""Balance occupancy: another number of CTAs per SM, the tile's registers following.

Needs: ctas_per_sm. Against latency (one more CTA covers waits; tile and rings give way) and against
spills (one CTA less leaves each thread more registers). Expected: a few per cent either way, more than
half where a kernel ran one small CTA per SM.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import MID, attempt, shift
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("latency", "spills", "issue")
PRIOR = MID
SLACK = (
    ("block_n", -1),
    ("v_stages", -1),
    ("k_stages", -1),
    ("stages", -1),
    ("warps", -1),
    ("rows_per_lane", -1),
)


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the genome sets no number of CTAs, or nothing gives room for another."""
    parent = parents[0]
    counts = [shift(parent, space, ctas_per_sm=1), shift(parent, space, ctas_per_sm=-1)]
    return attempt(parent, space, rng, counts, slack=SLACK)
