"""P to registers: the probabilities go from one product's accumulators into the other's operands.

Needs: P in shared memory; registers where products overlap, which the tile of keys pays. Against
shared-memory traffic and instruction issue: no store of P, no fence, no wait of the warpgroup. Expected:
a gain at head_dim 64 and 128, where FlashAttention-3 keeps P so; a large loss where it spills.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import HIGH, climb, refit
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("shared", "issue", "latency")
PRIOR = HIGH
SLACK = ("block_n", "producer_registers")


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when P is in registers, or no tile leaves room for it there."""
    parent = parents[0]
    words = climb(parent, space, "p_home", "smem", "registers")
    return refit(parent, space, rng, words, slack=SLACK)
