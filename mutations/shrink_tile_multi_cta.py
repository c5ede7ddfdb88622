"""Shrink the tile, more CTAs: fewer query rows in a CTA, and one more CTA per SM.

Needs: a gene of the rows of a CTA above its smallest value. Against latency, short grids and spills:
small CTAs fill the SMs evenly and cover one another's waits. Expected: from 1.47 to 1.07 times cuDNN's
time in a published kernel of head_dim 64; a loss for long sequences at head_dim 128.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import HIGH, attempt, shift
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("latency", "launch", "spills")
PRIOR = HIGH
ROWS = ("consumers", "warps", "rows_per_warp", "rows_per_lane", "bands", "warps_m", "block_m")


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the CTA has its fewest rows already."""
    parent = parents[0]
    smaller = [shift(parent, space, **{name: -1}) for name in ROWS]
    more = shift(parent, space, ctas_per_sm=1) or {}
    child = attempt(parent, space, rng, [{**less, **more} for less in smaller if less])
    return child or attempt(parent, space, rng, smaller)
