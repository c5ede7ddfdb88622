"""Swizzle shared memory: rows XOR-permuted over the banks, or padded, instead of lying flat.

Needs: a layout of shared tiles that can conflict. Against bank conflicts. Expected: +27 % from padding to
XOR in a published mma.sync kernel; padding alone removes most conflicts and costs an eighth of the space.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import HIGH, SMEM, attempt, climb, shift
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("shared",)
PRIOR = HIGH


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the layout has no other word and the padding no further step."""
    parent = parents[0]
    better = [
        *climb(parent, space, "layout", "pad0", "pad16", "pad8", "xor64", "xor128"),
        shift(parent, space, pad=1),
        shift(parent, space, pad=2),
    ]
    return attempt(parent, space, rng, better, slack=SMEM)
