"""Q out of the registers: it is read again from shared memory for every key tile.

Needs: Q in registers. Against spills and low occupancy: it frees head_dim / 4 registers for each 16 rows,
which a longer tile of keys may use. Expected: all of a spill's cost where it ends one, else a small loss.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import LOW, SMEM, attempt, climb, shift
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("spills",)
PRIOR = LOW


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when Q is not in registers, or shared memory has no room."""
    parent = parents[0]
    moved = [c for held in ("registers", "fragments") for c in climb(parent, space, "q_home", held, "smem")]
    longer = shift(parent, space, block_n=1) or {}
    child = attempt(parent, space, rng, [{**home, **longer} for home in moved])
    return child or attempt(parent, space, rng, moved, slack=SMEM)
