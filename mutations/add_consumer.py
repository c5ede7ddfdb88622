"""Add a consumer warpgroup: one or two more, each with query rows of its own, for the same tiles of keys.

Needs: consumers below four; registers, which the tile of keys, the producer's share and the CTAs per SM
give up. Against L2 and DRAM traffic: a tile that is fetched serves more rows; and against latency: one
warpgroup's softmax fills another's wait. Expected: L2 caps head_dim 64 at 380 to 450 TFLOPS with 64 rows
a fetch (modelled); the fastest kernel found for 2k at head_dim 64 has four consumers. A loss where tiles
are few.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import HIGH, refit, shift
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("l2", "dram", "latency")
PRIOR = HIGH
SLACK = ("block_n", "producer_registers", "ctas_per_sm")


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when there are four already, or registers do not allow more."""
    parent = parents[0]
    values = parent.as_dict()
    # The first neighbour brings the gene of turns into play.
    has_turns = "turns" in values or "turns" not in space.names
    turns = [{}] if has_turns else [{"turns": "none"}, {"turns": "gemm"}]
    counts = [shift(parent, space, consumers=1), shift(parent, space, consumers=2)]
    wider = [{**count, **turn} for count in counts if count for turn in turns]
    return refit(parent, space, rng, wider, slack=SLACK)
