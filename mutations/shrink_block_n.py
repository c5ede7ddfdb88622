"""Shrink block_n: fewer keys in each step, and what their scores occupied for something else.

Needs: block_n (or the scalar family's batch of keys) above its smallest. Against spills and low occupancy:
half the scores are half the accumulators of Q K^T, and the freed room may hold another CTA or stage.
Expected: all of a spill's cost where it ends one, else a small loss.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import MID, attempt, shift
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("spills", "latency")
PRIOR = MID
SHARES = (("tile_parts", -1), ("max_tree", -1), ("sum_tree", -1))  # which must fit in the tile


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the tile of keys is as short as it gets."""
    parent = parents[0]
    shorter = [less for name in ("block_n", "batch") if (less := shift(parent, space, **{name: -1}))]
    filled = [shift(parent, space, **{name: 1}) or {} for name in ("ctas_per_sm", "k_stages")]
    child = attempt(parent, space, rng, [{**less, **more} for less in shorter for more in filled])
    return child or attempt(parent, space, rng, shorter, slack=SHARES)
