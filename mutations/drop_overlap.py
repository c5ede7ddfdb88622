"""Drop the overlap: products wait for the softmax, and its registers go into a longer tile or a consumer.

Needs: overlap within the warpgroup. Against spills and instruction issue: a quarter of block_n in
registers is freed; warpgroups beside one another, best in turns at the exponentials, overlap instead. Where P
is double-buffered, that alone may be dropped.
Expected: equal at head_dim 128, where cuDNN reaches 702 TFLOPS without it.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import MID, climb, largest, nearest, one_of, set_back, shift
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("spills", "issue")
PRIOR = MID
SLACK = ("block_n", "producer_registers")


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when nothing overlaps."""
    parent = parents[0]
    words = climb(parent, space, "overlap", "buffered", "intra", "none")
    wider = shift(parent, space, consumers=1) or {}
    children = [
        largest(parent, space, {**word, **turn}, "block_n")
        for word in words
        for turn in ({}, set_back(parent, turns="exp"))
    ]
    return one_of([*children, *(nearest(parent, space, {**w, **wider}, SLACK) for w in words)], rng)
