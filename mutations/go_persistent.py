"""Go persistent: as many CTAs as fit on the GPU take query tiles in turn or on demand; or a CTA a tile again.

Needs: a family with two schedules or more. Against launch and wave effects: prologues overlap, the last wave
is shorter. Expected: 2 to 5 % for long sequences, a small loss where every tile has a slot on an SM anyway.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import MID, attempt, switch
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("launch", "latency")
PRIOR = MID


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the family has one schedule."""
    parent = parents[0]
    return attempt(parent, space, rng, switch(parent, space, "schedule"))
