"""Nudge: one gene to a neighbouring value; a word to any other word.

Needs: nothing. Against whatever bounds a good genome, late in a search: small steps keep most of what
works. Expected: a few per cent, seldom a failure.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import MID
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS: tuple[str, ...] = ()  # any
GENERAL = True  # it knows no gene by name
PRIOR = MID


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when no active gene has a second value."""
    values = parents[0].as_dict()
    steps = [(name, near) for name, value in values.items() if (near := space.param(name).neighbours(value))]
    if not steps:
        return None
    name, near = steps[int(rng.integers(len(steps)))]
    return space.genome({**values, name: near[int(rng.integers(len(near)))]})
