"""Widen rows: each warp, or each lane, takes more query rows for every key that it loads.

Needs: rows_per_warp, rows_per_lane or block_m below its largest; registers (block_n and CTAs per SM give
way). Against shared-memory and L2 traffic: twice the rows halve the reads of K and V. Expected: up to +30
% where an A100 is bound by shared memory (modelled); a loss where registers were the limit.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import HIGH, REGISTERS, attempt, shift
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("shared", "l2", "dram")
PRIOR = HIGH


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the rows are as wide as they get, or registers do not allow more."""
    parent = parents[0]
    ways = (("rows_per_warp", 1), ("rows_per_lane", 1), ("block_m", 1), ("block_m", 2))
    wider = [shift(parent, space, **{name: way}) for name, way in ways]
    return attempt(parent, space, rng, wider, slack=REGISTERS)
