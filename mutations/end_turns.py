"""End the turns: every warpgroup goes on as soon as its own data is there.

Needs: turns. Against latency of short sequences, where a turn is waited for more often than a unit is
free, and the named barriers' instructions. Expected: a small gain with several CTAs per SM or with
divided keys, a loss in long sequences. Not measured by itself yet.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import LOW, attempt, switch
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("latency", "launch")
PRIOR = LOW


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when nobody takes turns."""
    parent = parents[0]
    return attempt(parent, space, rng, switch(parent, space, "turns", "none"))
