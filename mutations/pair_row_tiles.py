"""Pair tiles of rows: a warpgroup computes two tiles of query rows, alone or in the place of two.

Needs: warpgroups that do not divide the keys; registers for two outputs and two tiles of scores, which the
tile of keys, the producer's share and the CTAs per SM give up. Against latency: the exponentials of one tile
are taken while the tensor cores are at the other's products, whatever other warpgroups do; and, where the
warpgroups stay as many, against L2 and DRAM traffic, since a tile of keys serves twice the rows. Expected: a
gain at head_dim 64, where exponentials and products take equally long; none at 128, where two outputs leave
room for 32 to 48 keys. Measured on an H200 at s2k_d64: 10 % slower than four warpgroups of one tile each.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import MID, refit
from evoflash.space import Genome, SearchSpace, Value

PARENTS = 1
BOTTLENECKS = ("latency", "exp", "l2", "dram")
PRIOR = MID
SLACK = ("block_n", "producer_registers", "ctas_per_sm")


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when they are paired already, where the keys are divided, and where registers do not allow it."""
    parent = parents[0]
    values = parent.as_dict()
    if values.get("rows_per_warpgroup") != 64:
        return None
    count = int(values["consumers"])
    pairs: list[dict[str, Value]] = [{"consumers": n} for n in dict.fromkeys((count, max(1, count // 2)))]
    # Scores that come in turn leave no room for another tile's.
    ends = {"turns": "none"} if values.get("turns") == "scores" else {}
    # Nor does a second P of each tile: what it is for, the other tile's products do.
    single = {"overlap": "intra"} if values.get("overlap") == "buffered" else {}
    paired = [
        {"rows_per_warpgroup": 128, **pair, **single, **(ends if pair["consumers"] != 1 else {})}
        for pair in pairs
    ]
    return refit(parent, space, rng, paired, slack=SLACK)
