"""Unroll loops: more keys scored, or more of the depth multiplied, between two turns of an inner loop.

Needs: an unrolled loop's gene below its largest. Against latency and instruction issue: independent
multiply-adds in flight, the loop's own instructions shared. Expected: most for scalar code, until
registers or the instruction cache end it. Not measured by itself yet.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import MID, attempt, shift
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("latency", "issue")
PRIOR = MID
SLACK = (("ctas_per_sm", -1), ("rows_per_lane", -1), ("block_n", 1))  # a longer tile holds a longer batch


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the loops are unrolled as far as they get, or registers do not allow more."""
    parent = parents[0]
    unrolled = [
        shift(parent, space, batch=1),
        shift(parent, space, unroll=1),
        shift(parent, space, kv_unroll=1),
        shift(parent, space, batch=1, unroll=1),
    ]
    return attempt(parent, space, rng, unrolled, slack=SLACK)
