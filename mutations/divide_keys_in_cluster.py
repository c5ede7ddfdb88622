"""Divide the keys in a cluster: two or four blocks share their query rows and merge at the end; or no longer.

Four may be two times two: pairs with different rows that fetch each tile together, which needs a producer.

Needs: columns that divide among all that merge, and plain stores; a persistent grid and multicast are
given up. Against latency of short sequences: as many times the blocks, each with a fraction of the steps, and
the merge goes through distributed shared memory without a second kernel. Expected: a gain where the query
tiles fill less than half of the SMs; ending it wins where there are more tiles than places. Not measured by
itself yet.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.moves import HIGH
from evoflash.refit import refit, set_back
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("latency", "launch")
PRIOR = HIGH


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None for a family without clusters, or when the columns do not divide."""
    parent = parents[0]
    values = parent.as_dict()
    if "cluster" not in values or "cluster_use" not in space.names:
        return None
    has = (values["cluster"], values.get("cluster_use"))
    alone = {**set_back(parent, schedule="grid"), "epilogue": "direct"}
    divided = [
        {"cluster": count, "cluster_use": use, **alone}
        for count, use in ((2, "keys"), (4, "keys"), (4, "both"))
        if (count, use) != has
    ]
    # As likely as the other way.
    joined = [{"cluster": 1}] * len(divided) if has[1] in ("keys", "both") else []
    return refit(parent, space, rng, [*divided, *joined], follows=("k_stages", "v_stages"))
