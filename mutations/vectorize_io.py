"""Vectorise I/O: wider loads, and stores of whole vectors instead of single elements.

Needs: vec below its widest, or plain stores at the end. Against L2 and DRAM traffic and instruction
issue: 16 bytes in one instruction instead of 2. Expected: most where a scalar kernel loads single
elements, little for the stores alone. Not measured by itself yet.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import HIGH, attempt, climb, shift
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("l2", "dram", "issue", "latency")
PRIOR = HIGH


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when loads and stores are as wide as they get."""
    parent = parents[0]
    stores = climb(parent, space, "epilogue", "plain", "vector", "vectorised", "streaming")
    wider = [shift(parent, space, vec=1), shift(parent, space, vec=2), *stores]
    return attempt(parent, space, rng, wider, slack=(("lanes_per_row", -1), ("batch", -1)))
