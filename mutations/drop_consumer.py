"""Drop a consumer warpgroup: its rows and registers go, and the longest tile of keys that fits comes in.

Needs: more than one consumer. Against spills and instruction issue: the others share the registers, and a
longer tile pays barriers and rescaling once for more keys. Expected: two warpgroups on 176 keys,
FlashAttention-3's choice at head_dim 128, where three have registers for 80. Not measured by itself yet.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import MID, largest, one_of, shift
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("spills", "issue", "tensor")
PRIOR = MID


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when there is one consumer, or fewer cannot share the groups of keys."""
    parent = parents[0]
    fewer = [shift(parent, space, consumers=-1), shift(parent, space, consumers=-2)]
    return one_of((largest(parent, space, count, "block_n") for count in fewer if count), rng)
