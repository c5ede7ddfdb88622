"""Trade rows for k: of the genes that divide the W of a linear layer one doubles, another halves.

Needs: two of the genes of rows of W (a warp's, a CTA's) and of shares of k (warps', CTAs'). Against latency
and waves: as much of W is on its way as before, in other hands, so that the CTAs fill the SMs otherwise and a
sum has fewer or more parts; against L2: x is fetched for more rows together, or fewer. Expected: the fastest
kernels of one layer for neighbouring numbers of rows of x often differ by one such trade (4096 x 4096 in
8 bits on an H100, 16 and 31 rows of x: 0.2 to 2 us of 8 to 10).
"""

import itertools
from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import HIGH, Changes, attempt, draw_new_genes
from evoflash.space import Genome, SearchSpace, is_among

PARENTS = 1
BOTTLENECKS = ("latency", "launch", "l2")
PRIOR = HIGH
SLACK = (("ctas_per_sm", -1), ("stages", -1), ("unroll", -1))
DIVIDING = (
    "rows_per_warp",
    "row_tiles",
    "row_warps",
    "row_groups",
    "warps",
    "k_warps",
    "k_groups",
    "k_splits",
)


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the genome does not divide k, or no gene can double while another halves."""
    parent = parents[0]
    values = parent.as_dict()
    if "k_splits" not in values:
        return None
    pairs = itertools.permutations((name for name in DIVIDING if name in values), 2)
    traded = (_trade(values, space, *pair) for pair in pairs)
    return attempt(
        parent, space, rng, [draw_new_genes(parent, space, rng, each) for each in traded if each], slack=SLACK
    )


def _trade(values: Changes, space: SearchSpace, more: str, fewer: str) -> Changes | None:
    twice, half = 2 * int(values[more]), int(values[fewer]) // 2
    fits = int(values[fewer]) % 2 == 0 and is_among(twice, space.param(more).values)
    return {more: twice, fewer: half} if fits and is_among(half, space.param(fewer).values) else None
