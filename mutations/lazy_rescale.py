"""Lazy rescale: O is rescaled only when a row maximum has risen by more than a threshold; or that threshold.

Needs: rescaling at every step, or a lazy threshold to move. Against instruction issue: 32, 64 or 128
multiplies fewer per warp and step at head_dim 64, 128, 256. Expected: a gain everywhere, most at head_dim
256.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import REGISTERS, VERY_HIGH, attempt, climb, switch
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("issue", "latency", "exp")
PRIOR = VERY_HIGH


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the running maximum is not kept online or lazily."""
    parent = parents[0]
    lazy = [{**word, "lazy_tau": 8} for word in climb(parent, space, "rescale", "online", "lazy")]
    return attempt(parent, space, rng, lazy or switch(parent, space, "lazy_tau"), slack=REGISTERS)
