"""Copy asynchronously: tiles come in by cp.async, while the warps compute, instead of through registers.

Needs: copies by ordinary loads and stores. Against latency of global memory, and registers of data on
their way. Expected: a step of the ladder from scalar code; with one stage little. Not measured by itself
yet.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import HIGH, SMEM, attempt, climb
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("latency", "l2", "dram", "spills")
PRIOR = HIGH


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the copies are asynchronous, or too narrow to be."""
    parent = parents[0]
    homes = climb(parent, space, "kv_home", "smem", "smem_async")
    copies = climb(parent, space, "copy", "sync", "async_ca", "async_cg")
    wide = [{**copy, "vec": 16} for copy in copies]
    return attempt(parent, space, rng, [*homes, *wide], slack=SMEM)
