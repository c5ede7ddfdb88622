"""What a model is taught of outcomes, and which of many rows it would try next. Knows numbers only.

A row is preferred by expected improvement: how much better than the best it is expected to be, where it is
(D. R. Jones et al., 1998). Each pick is then assumed to be as expected, so that the next one differs.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evoflash.strategies.model.features import Floats, Ints
from evoflash.strategies.model.gaussian_process import Posterior

Flags = NDArray[np.bool_]
_erfc = np.frompyfunc(math.erfc, 1, 1)

FLATNESS = 0.05  # added to a rank from 0 to 1 before its logarithm: the very best differ by no more than that


def targets_of(scores_us: Sequence[float], *, among: Sequence[float] | None = None) -> Floats:
    """What a model learns of scores (infinite: failed): the logarithm of each rank `among` scores, which are
    those themselves if none are given. Over these the mean is 0 and the deviation 1.

    Ranks, so that neither the unit nor a few very slow kernels matter; logarithms, so that the best are told
    apart most. What failed has the last rank. All zero where there is nothing to tell apart.
    """
    ranked = np.sort(np.array(scores_us if among is None else among))
    usual = _logs(ranked, ranked)
    centred: Floats = _logs(np.array(scores_us), ranked) - usual.mean()
    deviation = float(usual.std())
    return centred / deviation if deviation > 0 else np.zeros(len(centred))


def _logs(scores_us: Floats, ranked: Floats) -> Floats:
    ranks = np.maximum(np.searchsorted(ranked, scores_us, side="right") - 1, 0)
    logs: Floats = np.log(ranks / len(ranked) + FLATNESS)
    return logs


def some_of(targets: Floats, most: int) -> Ints:
    """At most `most` outcomes to learn from, in order: the best half of that, and of the others evenly many.

    The others keep a model from hoping for what was found to be bad long ago.
    """
    if len(targets) <= most:
        return np.arange(len(targets))
    order = np.argsort(targets, kind="stable")
    best, others = order[: most // 2], np.sort(order[most // 2 :])
    evenly = others[np.linspace(0, len(others) - 1, most - most // 2).astype(np.int64)]
    return np.sort(np.concatenate([best, evenly]))


def favourite(known: Posterior, best: float, among: Flags) -> int:
    """The row of the posterior with the most expected improvement on the target `best`, of those that are
    True in `among`, one of which there is; from now on it is assumed to be as expected.
    """
    gains = expected_gain(known.mean, known.deviation, best)
    at = int(np.argmax(np.where(among, gains, -1.0)))
    known.assume(at)
    return at


def expected_gain(mean: Floats, deviation: Floats, best: float) -> Floats:
    """How far below `best` a normal variable is expected to be, counted as 0 where it is above."""
    z = (best - mean) / deviation
    gain: Floats = deviation * (z * _normal(z) + np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi))
    return gain


def _normal(z: Floats) -> Floats:
    """The normal distribution function; NumPy has none."""
    below: Floats = 0.5 * _erfc(-z / np.sqrt(2)).astype(np.float64)
    return below
