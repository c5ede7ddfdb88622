"""Toggle structure: one word or switch to another, such as layout, q_home, rescale, waits or epilogue.

Needs: a gene whose values are words or switches. Against bank conflicts (layout), shared-memory reads and
registers (q_home), instruction issue (rescale), short blocks (epilogue). The genes that the new word
brings into play are drawn at random, for no parent has tried them. Expected: jumps, and most are for the
worse.
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
    """None when the genome has no word or switch with a second value."""
    values = parents[0].as_dict()
    words = [name for name, value in values.items() if isinstance(value, str | bool)]
    words = [name for name in words if len(space.param(name).values) > 1]
    if not words:
        return None
    name = words[int(rng.integers(len(words)))]
    others = space.param(name).neighbours(values[name])
    fresh = {p.name: p.values[int(rng.integers(len(p.values)))] for p in space.params}
    return space.genome({**fresh, **values, name: others[int(rng.integers(len(others)))]})
