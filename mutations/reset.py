"""Reset: one gene to any other of its values.

Needs: nothing. Against standstill, when nudges gain nothing: it jumps over a cliff (a spill, a lost CTA
per SM) that stands between two good values of the same gene. Expected: mostly worse, now and then the way
out.
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
    free = [name for name in values if len(space.param(name).values) > 1]
    if not free:
        return None
    name = free[int(rng.integers(len(free)))]
    others = [value for value in space.param(name).values if value != values[name]]
    return space.genome({**values, name: others[int(rng.integers(len(others)))]})
