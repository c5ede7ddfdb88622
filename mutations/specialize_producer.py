"""Specialise a producer: copies are asked for by a warp or a warpgroup that computes nothing.

Needs: a consumer that loads for itself, or a lone producer warp that could be a warpgroup; the tile of
keys and the CTAs per SM pay its registers. Against instruction issue and latency: no consumer waits for a
free slot before it goes on, and a warpgroup gives most of its registers away. Expected: +14 to 16 % at
head_dim 128 (FlashAttention-3's ablation); a loss for one small consumer at head_dim 64.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import HIGH, climb, refit
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("issue", "latency", "tensor")
PRIOR = HIGH
SLACK = ("block_n", "ctas_per_sm")


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when a warpgroup produces already, or its registers are not to be had."""
    parent = parents[0]
    words = climb(parent, space, "producer", "self", "warp", "warpgroup")
    return refit(parent, space, rng, words, slack=SLACK)
