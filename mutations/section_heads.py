"""Section the heads: query blocks go section by section, of as many heads as have their keys in L2 together.

Needs: sections whose size is a gene, and no cluster. Against L2 misses: a head holds 4 * seq_kv * head_dim
bytes of K and V, and L2 about 32 MB of them; the length is known to no search space, so that all sizes are
offered to another order, and one or two steps to sections. Expected: 293 to 228 us from all heads side by
side at 2k and head_dim 128, causal, dynamic, on an H200; nothing where all heads fit.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import HIGH, attempt, shift
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("l2", "dram", "latency")
PRIOR = HIGH


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the family knows no such size, or a cluster shares its copies."""
    parent = parents[0]
    if "section_heads" not in space.names:
        return None
    if "section_heads" in parent.as_dict():
        steps = [shift(parent, space, section_heads=way) for way in (-2, -1, 1, 2)]
        return attempt(parent, space, rng, steps)
    sizes = space.param("section_heads").values
    return attempt(parent, space, rng, [{"tile_order": "sections", "section_heads": size} for size in sizes])
