"""Shift registers: the producer warpgroup keeps a few more or fewer, and the consumers share what is left.

Needs: a producer warpgroup. Against spills, in the producer or in the consumers: setmaxnreg moves
registers in steps of eight, and the wall is where the scores of a longer tile of keys no longer fit.
Expected: all of a spill's cost where it ends one, or the next longer tile; else nothing.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import LOW, attempt, shift
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("spills", "issue")
PRIOR = LOW


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when no producer warpgroup gives registers away."""
    parent = parents[0]
    moved = [
        shift(parent, space, producer_registers=1),
        shift(parent, space, producer_registers=-1),
        shift(parent, space, producer_registers=-1, block_n=1),
    ]
    return attempt(parent, space, rng, moved, slack=(("block_n", -1),))
