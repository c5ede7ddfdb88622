"""Tree reductions: several partial sums and maxima of a row at once instead of one chain; or a chain again.

Needs: max_tree or sum_tree. Against latency: the chain of dependent operations shortens, for some
registers. Expected: about a third of the exposed softmax latency at head_dim 64, nothing at 128.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import MID, attempt, shift
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("latency", "spills")
PRIOR = MID
TREES = (("sum_tree",), ("max_tree",), ("sum_tree", "max_tree"))


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the family has no trees, or the tile of keys is too short for wider ones."""
    parent = parents[0]
    wider = [shift(parent, space, **{name: 1 for name in names}) for names in TREES]
    narrower = [shift(parent, space, **{name: -1 for name in names}) for names in TREES]
    return attempt(parent, space, rng, wider) or attempt(parent, space, rng, narrower)
