"""Split KV over the warps of a CTA: they take different keys of the same rows and merge at the end.

Needs: kv_split_warps or key_warps, and as many times more warps or fewer rows. Against latency of short
sequences: three or four steps in a row become one. Expected: large at 512 keys and few query tiles, a loss
at long sequences.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import HIGH, SMEM, attempt, shift
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("latency", "launch")
PRIOR = HIGH
WAYS: tuple[dict[str, int], ...] = (
    {"kv_split_warps": 1},  # of so many warps
    {"kv_split_warps": 1, "warps": 1},
    {"kv_split_warps": -1},
    {"key_warps": 1},  # so many times more warps, or as many with fewer rows
    {"key_warps": 1, "row_warps": -1},
    {"key_warps": -1},
    {"key_warps": -1, "row_warps": 1},
)


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the family does not split over warps, or nothing makes room for more groups."""
    parent = parents[0]
    moves = [shift(parent, space, **ways) for ways in WAYS]
    return attempt(parent, space, rng, moves, slack=SMEM)
