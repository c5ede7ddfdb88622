"""Take turns: warpgroups issue products, take exponentials, or get their scores, one after another.

Needs: two consumers or more. Turns at the exponentials may come without overlap in the warpgroup (cuDNN's
schedule), turns at the products with it (FlashAttention-3's), turns at the scores only without
(TensorRT-LLM's). Against latency: left alone, warpgroups drift into step, and all of them stand at the same
unit. Expected: +9 to 12 % (published, head_dim 128); little beside several CTAs per SM.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import HIGH, refit, set_back, switch
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("latency", "tensor", "exp")
PRIOR = HIGH
SLACK = ("block_n", "k_stages", "v_stages")


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when one consumer has nobody to take turns with."""
    parent = parents[0]
    words = switch(parent, space, "turns", "gemm", "exp", "scores")
    apart = set_back(parent, overlap="none")
    together = {} if parent.as_dict().get("overlap") == "buffered" else set_back(parent, overlap="intra")
    kinds = {"gemm": together, "exp": apart, "scores": apart}
    paired = [{**word, **kinds[str(word["turns"])]} for word in words]
    return refit(parent, space, rng, [*words, *paired], slack=SLACK)
