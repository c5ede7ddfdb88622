"""Retile: two genes of the tile's shape together, one up and one down by a step each.

Needs: two of the genes that make the tile: rows, keys, warps or warpgroups along either, lanes of a row.
Against registers and spills: the area of the tile stays about the same, its shape changes. Expected: the
largest single gains of the numeric genes, where one step alone leaves the valid region.
"""

import itertools
from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import HIGH, SMEM, attempt, shift
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("spills", "issue", "shared", "latency")
PRIOR = HIGH
TILE = (
    "consumers",
    "warps",
    "row_warps",
    "key_warps",
    "rows_per_warp",
    "lanes_per_row",
    "rows_per_lane",
    "warps_m",
    "warps_n",
    "block_m",
    "block_n",
)


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when fewer than two of these genes can move."""
    parent = parents[0]
    pairs = itertools.permutations(TILE, 2)
    traded = [shift(parent, space, **{up: 1, down: -1}) for up, down in pairs]
    return attempt(parent, space, rng, traded, slack=SMEM)
