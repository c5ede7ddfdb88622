"""Split K/V stage counts: V's ring one stage shorter than K's, such as (2, 1).

Needs: a K ring of two stages or more; a joint ring is taken apart. Against latency: the freed stage of V
pays for one more CTA per SM. Expected: two CTAs per SM at head_dim 128, where (2, 2) fits only one; else
little.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import MID, Changes, apply_changes, shift
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("latency", "issue")
PRIOR = MID


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when K's ring has one stage, or V's is the shorter one already."""
    parent = parents[0]
    k_stages = parent.as_dict().get("k_stages", 1)
    if not isinstance(k_stages, int) or k_stages < 2:
        return None
    unequal: Changes = {"waits": "separate", "v_stages": k_stages - 1}
    more = shift(parent, space, ctas_per_sm=1) or {}
    return apply_changes(parent, space, {**unequal, **more}) or apply_changes(parent, space, unequal)
