"""Which of many genomes a forest would try next: what it is taught, what it promises, how picks are spread.

Knows numbers only: no genome, and no strategy.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from evoflash.strategies.forest import Floats, Forest, Ints

GOOD = 0.2  # share of the outcomes that count as good
FLATNESS = 0.02  # added to a rank from 0 to 1 before its logarithm: the very best differ by no more than that


def targets_of(scores_us: Sequence[float]) -> Floats:
    """What the forest learns of scores (infinite: failed): the logarithm of each rank, 0 on average.

    Ranks, so that neither the unit nor a few very slow kernels matter; logarithms, so that the best are told
    apart most. What failed has the last rank.
    """
    scores = np.array(scores_us)
    ranks = np.searchsorted(np.sort(scores), scores, side="right") - 1
    logs: Floats = np.log(ranks / len(scores) + FLATNESS)
    centred: Floats = logs - logs.mean()
    return centred


def promise(forest: Forest, leaves: Ints, targets: Floats) -> Floats:
    """From 0 to 1 for each column of `leaves`: how much better than the good targets it is expected to be.

    The mean over the trees of what each promises: a genome about which the trees disagree may be very good.
    """
    good = float(np.quantile(targets, GOOD))
    promised: Floats = np.maximum(good - forest.mean[leaves], 0.0).mean(axis=0)
    return promised / max(float(promised.max(initial=0.0)), 1e-12)


def spread(promised: Floats, leaves: Ints, beside: Ints) -> Iterator[int]:
    """Columns of `leaves` by promise, less their mean likeness to those before them and to those of `beside`.

    Two genomes are as alike as the share of the trees in which they have the same leaf.
    """
    left, count = promised.copy(), beside.shape[1]
    likeness = np.zeros(len(left))
    for column in beside.T:
        likeness += _likeness(leaves, column)
    for _ in range(len(left)):
        at = int(np.argmax(left - likeness / max(1, count)))
        yield at
        left[at] = -np.inf
        likeness += _likeness(leaves, leaves[:, at])
        count += 1


def _likeness(leaves: Ints, column: NDArray[np.int64]) -> Floats:
    shared: Floats = (leaves == column[:, None]).mean(axis=0)
    return shared
