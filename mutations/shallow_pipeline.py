"""Shallow pipeline: one stage less, and one more CTA per SM where that becomes possible.

Needs: a ring of more than one stage. Against idle issue slots: a ring that hides nothing more only keeps
another CTA away. Expected: nothing, or what one more CTA per SM brings (a published kernel of head_dim 64
lost 55 % of its speed with one CTA per SM instead of three).
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import LOW, attempt, shift
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("issue", "tensor", "exp", "shared")
PRIOR = LOW


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when every ring has one stage."""
    parent = parents[0]
    shallower = [
        shift(parent, space, k_stages=-1),
        shift(parent, space, v_stages=-1),
        shift(parent, space, k_stages=-1, v_stages=-1),
        shift(parent, space, stages=-1),
    ]
    more = shift(parent, space, ctas_per_sm=1) or {}
    child = attempt(parent, space, rng, [{**less, **more} for less in shallower if less])
    return child or attempt(parent, space, rng, shallower)
