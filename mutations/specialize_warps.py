"""Specialise warps: one or two that only copy beside those that compute, or none again.

Needs: a family with producers; they take a joint ring of two stages or more, and threads and registers of
the CTA: CTAs per SM give way. Against issue slots that copies take from computing warps, and against latency
where a producer runs ahead. Expected: FlashAttention-3 gains 14 to 16 % with TMA; with cp.async, which costs
an issue slot a copy, one comparison on an H200 was a loss of 1.48 times (docs/genes.md, row 21).
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import LOW, attempt, switch
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("issue", "latency")
PRIOR = LOW


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the family has no producers, or the genome no ring that they could fill."""
    parent = parents[0]
    moves = switch(parent, space, "producers")
    return attempt(parent, space, rng, moves, slack=(("ctas_per_sm", -1),))
