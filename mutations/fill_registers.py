"""Fill the registers: the longest tile of keys that registers and shared memory hold, in one move.

Needs: a Hopper genome whose tile is at least two steps (of fifteen) short of the wall: one step is
grow_block_n's. Against instruction issue and latency: barriers, turns and rescaling are paid once for
more keys, and wider products keep the tensor cores busier. Expected: 176 keys at head_dim 128 and 128 at
head_dim 64 with three consumers are such walls; a loss under a causal mask, where a longer tile is masked
more.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import MID, largest
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("issue", "latency", "tensor")
PRIOR = MID


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the wall is less than two steps away."""
    parent = parents[0]
    values = parent.as_dict()
    if "consumers" not in values:
        return None
    child = largest(parent, space, {}, "block_n")
    domain = space.param("block_n").values
    far = child is not None and domain.index(child.as_dict()["block_n"]) - domain.index(values["block_n"]) > 1
    return child if far else None
