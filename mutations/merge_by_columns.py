"""Merge by columns: warpgroups that divide the keys each add up some columns, or the first of them all again.

Needs: groups of keys in a block, and plain stores. Against latency: all warpgroups merge and store a part,
with one barrier where the other way has two and all but one group wait. Expected: a gain at short sequences,
where the merge is a good part of the whole; memory for what is handed over beside the rings is the price. Not
measured by itself yet.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import MID, refit, switch
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("latency",)
PRIOR = MID
SLACK = ("k_stages", "v_stages", "block_n")


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None where nothing is merged in a block, or columns do not divide."""
    parent = parents[0]
    values = parent.as_dict()
    direct = [  # where O is partial, it has one way out
        {**way, **({"epilogue": "direct"} if way["merge"] == "columns" and "epilogue" in values else {})}
        for way in switch(parent, space, "merge", "first", "columns")
    ]
    return refit(parent, space, rng, direct, slack=SLACK)
