"""Crossover: whole blocks of coupled genes from two parents.

Needs: two parents that differ in more than one block. Genes inside a block (a tile, a pipeline, a
softmax) are coupled through registers and shared memory and only weakly across blocks, so a block is
inherited whole. Against no bottleneck of its own: it unites what two lineages found apart. Expected:
rarely worse than both.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import MID
from evoflash.space import Genome, SearchSpace

PARENTS = 2
BOTTLENECKS: tuple[str, ...] = ()  # any
GENERAL = True  # it knows no gene by name
PRIOR = MID


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the parents differ in fewer than two blocks: the child would be one of them."""
    receiver, donor = (parent.as_dict() for parent in parents)
    blocks = [b for b in _blocks(space) if any(receiver.get(n) != donor.get(n) for n in b)]
    if len(blocks) < 2:
        return None
    count = int(rng.integers(1, len(blocks)))
    taken = rng.choice(len(blocks), size=count, replace=False)
    names = {name for index in taken for name in blocks[int(index)]}
    # A gene that only one parent has stays known: the other's block may switch it on.
    values = {**donor, **receiver, **{name: donor[name] for name in names if name in donor}}
    return space.genome(values)


def _blocks(space: SearchSpace) -> list[tuple[str, ...]]:
    alone = set(space.names).difference(*space.blocks)
    return [*space.blocks, *((name,) for name in space.names if name in alone)]
