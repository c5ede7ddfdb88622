"""Split a tile into parts: the maxima and exponentials of one stand beside the products of the others.

Needs: tile_parts, so tiles that nothing overlaps and no turns. Against latency of short sequences, where one
tile is all that a warpgroup sees and its products, maxima and exponentials follow one another. Expected: 3 to
5 % at 512 keys in two blocks (measured on an H200); more barriers and registers for nothing where tiles
overlap one another.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import HIGH, attempt, set_back
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("exp", "latency", "tensor")
PRIOR = HIGH
SLACK = (("max_tree", -1), ("sum_tree", -1), ("block_n", 1))


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the family computes a tile as a whole."""
    parent = parents[0]
    if "tile_parts" not in space.names:
        return None
    values = parent.as_dict()
    alone = {} if "tile_parts" in values else set_back(parent, overlap="none", turns="none")
    counts = [each for each in space.param("tile_parts").values if each != values.get("tile_parts", 1)]
    return attempt(parent, space, rng, [{**alone, "tile_parts": count} for count in counts], slack=SLACK)
