"""Retile: two genes of the tile's shape together, by one step each.

Needs: two of warps, rows_per_warp, block_n. Against registers and spills (trade: one up, one down, the area
stays), shared-memory traffic (more rows per warp halve the reads of K and V) and idle SMs (both down: more
CTAs). Expected: the largest single gains of the numeric genes, where one step alone leaves the valid region.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.space import Genome, SearchSpace

PARENTS = 1
TILE = ("warps", "rows_per_warp", "block_n")


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when fewer than two tile genes can move."""
    values = parents[0].as_dict()
    tile = [name for name in TILE if name in values and len(space.param(name).values) > 1]
    if len(tile) < 2:
        return None
    for index in rng.choice(len(tile), size=2, replace=False):
        name = tile[int(index)]
        near = space.param(name).neighbours(values[name])
        values[name] = near[int(rng.integers(len(near)))]
    return space.genome(values)
