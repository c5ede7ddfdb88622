"""Grow block_n: more keys in each step of the main loop.

Needs: block_n (or the scalar family's batch of keys) below its largest; stages and CTAs per SM give way.
Against instruction issue and latency: barriers, rescaling and loop control are paid once for more keys.
Expected: small gains until the scores spill. Not measured by itself yet.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import MID, attempt, shift
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("issue", "latency")
PRIOR = MID
SLACK = (
    ("ctas_per_sm", -1),
    ("v_stages", -1),
    ("k_stages", -1),
    ("stages", -1),
    ("rows_per_lane", -1),
    ("tile_parts", -1),
)


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the tile of keys is as long as it gets, or nothing makes room for more."""
    parent = parents[0]
    longer = [shift(parent, space, block_n=1), shift(parent, space, batch=1)]
    return attempt(parent, space, rng, longer, slack=SLACK)
