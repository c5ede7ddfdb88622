"""ldmatrix width: four matrices with one instruction instead of two.

Needs: fragments loaded by x2. Against instruction issue and shared-memory latency. Expected: +2.4 %
(published).
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import HIGH, REGISTERS, attempt, climb
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("issue", "shared")
PRIOR = HIGH


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the loads are x4 already."""
    parent = parents[0]
    return attempt(parent, space, rng, climb(parent, space, "ldsm", "x2", "x4"), slack=REGISTERS)
