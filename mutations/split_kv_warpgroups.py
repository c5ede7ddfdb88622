"""Split KV over warpgroups: two or four share their query rows, divide the keys and merge at the end.

Needs: kv_groups and consumers that it divides; multicast and a persistent grid are given up, for the
merge takes the place of rings that must be empty. Against latency of short sequences: three or four steps
in a row become one, and 64 rows a CTA fill more SMs. Expected: an estimated 3 us instead of 6 to 7 for
512 keys and 8 heads; a loss at long sequences, where each tile then serves fewer rows.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import HIGH, refit, set_back
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("latency", "launch")
PRIOR = HIGH
SLACK = ("block_n", "k_stages", "v_stages")


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the keys are divided by four, or memory has no room for the groups' tiles."""
    parent = parents[0]
    values = parent.as_dict()
    if not {"kv_groups", "consumers"} <= values.keys():
        return None
    shared = values.get("cluster_use") == "multicast"
    alone = set_back(parent, schedule="grid", **({"cluster": 1} if shared else {}))
    split = [
        {"kv_groups": groups, "consumers": count, **alone}
        for groups in space.param("kv_groups").values
        for count in space.param("consumers").values
        if int(groups) > int(values["kv_groups"]) and int(count) % int(groups) == 0
    ]
    return refit(parent, space, rng, split, slack=SLACK)
