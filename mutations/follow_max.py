"""Follow the maximum again: a guessed one becomes a lazy one, a lazy one is kept up in every step.

Needs: a maximum that is guessed and checked, or that lags. Against latency and issue where scores are not
tame: no block is computed twice, no check at its end; followed in every step it needs no vote on whether to
rescale. Expected: a loss of what the maxima cost on normal inputs. Not measured by itself yet.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.gene_edits import LOW, attempt, climb
from evoflash.space import Genome, SearchSpace

PARENTS = 1
BOTTLENECKS = ("issue", "latency")
PRIOR = LOW


def mutate(parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    """None when the maximum is followed in every step."""
    parent = parents[0]
    guesses = ("speculative", "sampled")
    words = [change for guess in guesses for change in climb(parent, space, "rescale", guess, "lazy")]
    lazy = [{**word, "lazy_tau": 8} for word in words]
    return attempt(parent, space, rng, [*lazy, *climb(parent, space, "rescale", "lazy", "online")])
