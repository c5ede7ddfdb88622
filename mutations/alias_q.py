"""Alias Q: the query tile passes through a slot of the K/V ring instead of having shared memory of its own.

Needs: Q kept in registers after its first load. Against low occupancy: block_m rows of shared memory are
freed for one more CTA per SM, a deeper ring or a longer tile. Expected: nothing by itself, what the freed
memory buys.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import MID, REGISTERS, apply_changes, attempt, shift
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("latency", "shared")
PRIOR = MID


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when Q shares its memory already, or does not fit in registers."""
    parent = parents[0]
    if parent.as_dict().get("q_alias") == "on":
        return None
    shared = {"q_home": "registers", "q_alias": "on"}
    bought = [shift(parent, space, **{name: 1}) or {} for name in ("ctas_per_sm", "k_stages", "block_n")]
    child = attempt(parent, space, rng, [{**shared, **more} for more in bought])
    return child or apply_changes(parent, space, shared, slack=REGISTERS)
