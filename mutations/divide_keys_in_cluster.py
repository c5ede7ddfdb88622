"""Divide the keys in a cluster: two or four blocks share their query rows and merge at the end; or no longer.

Four may be two times two: pairs with different rows that fetch each tile together, which needs a producer.
Where blocks of a cluster exchange P they always divide the keys: two become four, or four two, each with as
many keys in a step as before or as many in all.

Needs: columns that divide among all that merge, and plain stores; a persistent grid and multicast are
given up. Against latency of short sequences: as many times the blocks, each with a fraction of the steps, and
the merge goes through distributed shared memory without a second kernel. Expected: a gain where the query
tiles fill less than half of the SMs; ending it wins where there are more tiles than places. Not measured by
itself yet.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import HIGH, Changes, refit, set_back, switch
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("latency", "launch")
PRIOR = HIGH
SLACK = ("tile_parts", "block_n", "max_tree", "sum_tree", "ctas_per_sm")


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None for a family without clusters, or when the columns do not divide."""
    parent = parents[0]
    values = parent.as_dict()
    if "cluster" not in values:
        return None
    if "cluster_use" not in space.names:
        return refit(parent, space, rng, _other_counts(parent, space), slack=SLACK)
    has = (values["cluster"], values.get("cluster_use"))
    alone = {**set_back(parent, schedule="grid"), "epilogue": "direct"}
    divided = [
        {"cluster": count, "cluster_use": use, **alone}
        for count, use in ((2, "keys"), (4, "keys"), (4, "both"))
        if (count, use) != has
    ]
    # As likely as the other way.
    joined = [{"cluster": 1}] * len(divided) if has[1] in ("keys", "both") else []
    return refit(parent, space, rng, [*divided, *joined], slack=("k_stages", "v_stages"))


def _other_counts(parent: Genome, space: SearchSpace) -> list[Changes]:
    """Other numbers of blocks: with tiles as they are, and with tiles that are as many keys in all."""
    values = parent.as_dict()
    tiles = space.param("block_n").values
    found: list[Changes] = []
    for count in switch(parent, space, "cluster"):
        share = int(values["block_n"]) * int(values["cluster"]) // int(count["cluster"])
        found += [count, {**count, "block_n": share}] if share in tiles else [count]
    return found
