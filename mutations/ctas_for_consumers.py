"""CTAs for consumers: as many warpgroups on an SM as before, in more CTAs of fewer or in fewer of more.

Needs: consumers and CTAs per SM whose product can be had otherwise, such as 2 x 1 and 1 x 2. Against
latency and waves: CTAs of their own start, wait and end apart, and short grids fill the SMs; against L2:
consumers of one CTA share what it fetches. Expected: at head_dim 64 one CTA per SM cost a published
kernel 55 %.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import HIGH, refit
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("latency", "launch", "l2")
PRIOR = HIGH
SLACK = ("block_n", "v_stages", "cluster")


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when there is one warpgroup on the SM, or the other division does not fit."""
    parent = parents[0]
    values = parent.as_dict()
    if not {"consumers", "ctas_per_sm"} <= values.keys():
        return None
    pairs = itertools.product(space.param("consumers").values, space.param("ctas_per_sm").values)
    own = values["consumers"], values["ctas_per_sm"]
    same = [pair for pair in pairs if pair != own and math.prod(map(int, pair)) == math.prod(map(int, own))]
    traded = [{"consumers": count, "ctas_per_sm": ctas} for count, ctas in same]
    return refit(parent, space, rng, traded, slack=SLACK)
