"""Skip the maximum: it is sampled or guessed from a few keys, checked afterwards, and redone when wrong.

Needs: a family with a sampled or speculative maximum; on Hopper a cluster is given up for it, and the tile
of keys may give way to what a redo has to remember. Against instruction issue: the row maximum is a quarter
of the softmax's instructions. Expected: 25 to 42 % fewer instructions where scores are tame; a redo costs
more than it saves where they are not.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import HIGH, attempt, set_back, shift, switch
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("issue", "latency", "exp")
PRIOR = HIGH
TREES = (("max_tree", -1), ("ctas_per_sm", -1))
WALL = (*TREES, ("block_n", -1))


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the family knows no such maximum, or has the barest of them."""
    parent = parents[0]
    guesses = switch(parent, space, "rescale", "sampled", "speculative")
    child = attempt(parent, space, rng, [*guesses, shift(parent, space, sample=1)], slack=TREES)
    # A redo on Hopper needs a CTA that shares no copies, registers, and a log where the CTA is persistent.
    alone = set_back(parent, cluster=1)
    return child or attempt(parent, space, rng, [{**guess, **alone} for guess in guesses], slack=WALL)
