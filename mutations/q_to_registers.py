"""Q to registers: its fragments are loaded once instead of being read again for every key tile.

Needs: another home of Q than registers; registers (block_n and CTAs per SM give way). Against
shared-memory reads: eight ldmatrix fewer in each step at head_dim 64. Expected: a gain where shared
memory or issue slots limit, a loss where it causes spills.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import MID, REGISTERS, attempt, climb
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("shared", "issue", "latency")
PRIOR = MID


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when Q is in registers, or does not fit there."""
    parent = parents[0]
    nearer = climb(parent, space, "q_home", "global", "smem", "registers", "fragments")
    return attempt(parent, space, rng, nearer, slack=REGISTERS)
