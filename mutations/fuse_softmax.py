"""Fuse the softmax: what the steps hand to one another stays in registers, in one pass over the keys.

Needs: an output kept in shared memory between steps, or two passes over the keys. Against shared-memory
traffic and instruction issue. Expected: most where O went through shared memory in every step, 3 to 10
times over naive code altogether; half the loads of K for one pass instead of two. S and P move to
registers only with the family that has them there, flash_mma.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import HIGH, REGISTERS, attempt, climb
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("shared", "issue", "latency", "l2")
PRIOR = HIGH


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the softmax is fused as far as the family can."""
    parent = parents[0]
    homes = climb(parent, space, "o_home", "smem", "registers", "fragments")
    fused = [*homes, *climb(parent, space, "softmax", "two_pass", "online")]
    return attempt(parent, space, rng, fused, slack=REGISTERS)
