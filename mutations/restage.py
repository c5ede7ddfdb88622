"""Restage: pipeline depth against occupancy.

Needs: at least one of k_stages, v_stages, waits, ctas_per_sm. Against memory latency (deeper: more stages,
fewer CTAs per SM) and against idle issue slots (shallower: shared memory for one more CTA; K and V may want
different depths). Expected: about 5 % from the second stage, little beyond; a second CTA can bring far more.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.space import Genome, SearchSpace, Value

PARENTS = 1
DEPTH = ("k_stages", "v_stages")


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the space has no such genes, or all of them stand at their ends."""
    values = parents[0].as_dict()
    deeper = int(rng.choice([-1, 1]))
    moves = [(name, deeper) for name in DEPTH] + [("ctas_per_sm", -deeper)]
    steps = [(name, near) for name, way in moves if (near := _step(values, space, name, way)) is not None]
    if "waits" in values and (others := space.param("waits").neighbours(values["waits"])):
        steps.append(("waits", others[int(rng.integers(len(others)))]))
    if not steps:
        return None
    count = int(rng.integers(1, min(2, len(steps)) + 1))
    for index in rng.choice(len(steps), size=count, replace=False):
        name, value = steps[int(index)]
        values[name] = value
    return space.genome(values)


def _step(values: dict[str, Value], space: SearchSpace, name: str, way: int) -> Value | None:
    if name not in values:
        return None
    domain = space.param(name).values
    at = domain.index(values[name]) + way
    return domain[at] if 0 <= at < len(domain) else None
