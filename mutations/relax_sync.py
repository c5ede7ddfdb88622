"""Relax synchronisation: warps wait for one another less often or for less.

Needs: a joint wait for K and V, or barriers of the whole CTA where a warp's would do. Against latency: Q
K^T starts before V has arrived. Expected: a small gain. Not measured by itself yet.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import MID, SMEM, attempt, climb
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("latency",)
PRIOR = MID


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the waits are separate and the barriers a warp's."""
    parent = parents[0]
    depth = parent.as_dict().get("k_stages")
    apart = climb(parent, space, "waits", "joint", "separate")
    apart = [{**word, "v_stages": depth} for word in apart] if depth else apart
    own = climb(parent, space, "sync", "block", "warp")
    alone = [{**word, "warps_n": 1} for word in own]  # a warp that owns its rows waits for no other
    return attempt(parent, space, rng, [*apart, *own, *alone], slack=SMEM)
