"""Cheaper mask: columns or tiles that a mask hides are skipped, or compared with one threshold.

Needs: a mask gene, or tiles or keys that no row sees. Against instruction issue on the tiles that the
diagonal or the end of the keys cuts. Expected: masked tiles from 42 to 22 % of the work of a short causal
sequence; visible only there.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import MID, attempt, climb, switch
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("issue", "exp", "latency")
PRIOR = MID


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the mask is the cheapest that there is."""
    parent = parents[0]
    cheaper = [
        *climb(parent, space, "mask", "compare", "threshold", "colskip"),
        *climb(parent, space, "tile_skip", "off", "half", "on", "both"),
        *switch(parent, space, "skip_masked", True),
    ]
    return attempt(parent, space, rng, cheaper)
