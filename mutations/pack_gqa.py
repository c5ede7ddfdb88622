"""Pack GQA: the query heads that share a key/value head share a tile, so that K and V are read once for all.

Needs: several query heads for each key/value head. Against L2 and DRAM traffic, and tiles that short
queries leave half empty. Expected: K and V traffic divided by the ratio; large for decoding, little for
long queries.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import HIGH, REGISTERS, attempt, climb
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("l2", "dram", "latency")
PRIOR = HIGH


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the heads are packed, or there are no groups of them."""
    parent = parents[0]
    return attempt(parent, space, rng, climb(parent, space, "pack_gqa", "off", "on"), slack=REGISTERS)
