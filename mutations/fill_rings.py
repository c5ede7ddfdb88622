"""Fill the rings: K's and V's as deep as shared memory holds, several stages at once.

Needs: a Hopper genome with room for two stages or more; the tile of keys may give way by a step or two.
Against latency of short sequences: when every tile has a slot of its own, no copy waits for another's
end. Expected: the whole wait for empty slots at a few hundred keys; next to nothing in long sequences,
where two stages do.
"""

import itertools
from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import MID, apply_changes
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("latency", "dram", "l2")
PRIOR = MID


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when fewer than two stages more find room."""
    parent = parents[0]
    values = parent.as_dict()
    if not {"consumers", "k_stages"} <= values.keys():
        return None
    own = int(values["k_stages"]), int(values["v_stages"])
    depths = itertools.product(*(map(int, space.param(name).values) for name in ("k_stages", "v_stages")))
    deeper = [(k, v) for k, v in depths if k >= own[0] and v >= own[1] and k + v >= sum(own) + 2]
    for k, v in sorted(deeper, key=sum, reverse=True):
        if child := apply_changes(parent, space, {"k_stages": k, "v_stages": v}, slack=(("block_n", -1),)):
            return child
    return None
