"""Keys for stages: a longer tile of keys in shorter rings, or a shorter one in deeper rings.

Needs: a Hopper genome (block_n has fifteen values there, too many for single steps) whose shared memory
binds: the longer tile must not fit beside the rings as they are, nor the deeper rings beside the tile.
Against latency (deeper rings) and instruction issue (longer tiles). Expected: beyond two stages next to
nothing for the ring, so most often the longer tile pays. Not measured by itself yet.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import MID, largest, nearest, one_of, shift
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("latency", "issue")
PRIOR = MID
RINGS = (("k_stages",), ("v_stages",), ("k_stages", "v_stages"))


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when neither buys the other."""
    parent = parents[0]
    values = parent.as_dict()
    if "consumers" not in values:
        return None
    less = [shift(parent, space, **dict.fromkeys(names, -1)) for names in RINGS]
    more = [shift(parent, space, **dict.fromkeys(names, 1)) for names in RINGS]
    longer = (largest(parent, space, changes, "block_n") for changes in less if changes)
    shorter = (nearest(parent, space, changes, ("block_n",)) for changes in more if changes)
    held = largest(parent, space, {}, "block_n")  # by these rings
    wall = max(int(values["block_n"]), int(held.as_dict()["block_n"]) if held else 0)
    bought = [child for child in longer if child and int(child.as_dict()["block_n"]) > wall]
    paid = [child for child in shorter if child and child.as_dict()["block_n"] != values["block_n"]]
    return one_of([*bought, *paid], rng)
