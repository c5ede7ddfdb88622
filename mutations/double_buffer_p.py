"""Double-buffer P: its rounding to 16 bits no longer waits for the P V that reads the P before.

Needs: overlap within the warpgroup, P in registers, one tile of rows; a quarter of block_n in registers,
which the tile of keys or the producer's share pays. Against latency: the conversions stand before the wait
for P V, not behind it. Expected: nothing: 1.4 % slower at s2k_d128 on an H200, and at head_dim 64 four
warpgroups have room for 48 keys instead of 64, 11 % slower at s8k_d64. The loop has twice the code.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import LOW, climb, refit
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("latency", "exp")
PRIOR = LOW
SLACK = ("block_n", "producer_registers")


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when nothing overlaps, P has its second place, or there is no room for it."""
    parent = parents[0]
    words = climb(parent, space, "overlap", "intra", "buffered")
    return refit(parent, space, rng, words, slack=SLACK)
