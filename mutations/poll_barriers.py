"""Ask barriers again and again, or sleep at them.

Needs: barriers that copies complete. Against latency: who sleeps is woken some cycles late, who asks takes
issue slots. Expected: 1 to 2 % where a block has one tile of keys (H200, mission and short256); on long rows
other warps want the slots.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import MID, attempt, switch
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("latency",)
PRIOR = MID


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None where nothing waits at such barriers."""
    parent = parents[0]
    return attempt(parent, space, rng, switch(parent, space, "barrier_wait"))
