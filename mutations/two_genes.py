"""Two genes: two genes at once to any other of their values.

Needs: two genes that have other values. Against standstill, where each of two changes is for the worse alone
and both together are not: the pair is drawn first and its values second, so that a pair of switches is drawn
as often as a pair of long lists. Expected: mostly worse; where all changes of one gene are, the way out.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import LOW, draw_new_genes
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS: tuple[str, ...] = ()  # any
GENERAL = True  # it knows no gene by name
PRIOR = LOW


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when fewer than two active genes have a second value."""
    values = parents[0].as_dict()
    free = [name for name in values if len(space.param(name).values) > 1]
    if len(free) < 2:
        return None
    pair = (free[int(at)] for at in rng.choice(len(free), size=2, replace=False))
    changes = {}
    for name in pair:
        domain = space.param(name).values
        step = 1 + int(rng.integers(len(domain) - 1))
        changes[name] = domain[(domain.index(values[name]) + step) % len(domain)]
    return space.genome({**values, **draw_new_genes(parents[0], space, rng, changes)})
