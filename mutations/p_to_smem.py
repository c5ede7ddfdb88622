"""P to shared memory: it passes through there, and its registers hold the scores of a longer tile of keys.

Needs: P in registers beside the next tile's scores (without overlap P takes the place of the scores and
frees nothing); shared memory, which a stage of V gives up. Against spills. Expected: FlashAttention-3
finds it better for 192 rows at head_dim 96; else the stores and fences cost more than the registers
bring.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import LOW, climb, largest, shift
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("spills",)
PRIOR = LOW


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when P is in shared memory, or no longer tile comes of its leaving."""
    parent = parents[0]
    values = parent.as_dict()
    if values.get("overlap") != "intra":
        return None
    words = climb(parent, space, "p_home", "registers", "smem")
    longest = int(values["block_n"])
    best = None
    for less in ({}, shift(parent, space, v_stages=-1) or {}):
        for word in words:
            child = largest(parent, space, {**word, **less}, "block_n")
            if child is not None and int(child.as_dict()["block_n"]) > longest:
                best, longest = child, int(child.as_dict()["block_n"])
    return best
