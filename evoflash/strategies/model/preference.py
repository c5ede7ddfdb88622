"""What a model is taught of outcomes, and which of many rows it would try next. Knows numbers only.

A row is preferred by expected improvement: how much better than the best it is expected to be, where it is
(D. R. Jones et al., 1998). Each pick is then assumed to be as expected, so that the next one differs.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from evoflash.strategies.model.features import Floats, Ints
from evoflash.strategies.model.gaussian_process import Posterior

Flags = NDArray[np.bool_]
_erfc = np.frompyfunc(math.erfc, 1, 1)

FLATNESS = 0.05  # added before a logarithm: the very best differ by no more than that
FAILED = 2.0  # times as slow as the slowest

# Values of scores in us (infinite: failed) beside others that are known, before they are centred.
Scale = Callable[[Floats, Floats], Floats]


def by_rank(scores_us: Floats, known_us: Floats) -> Floats:
    """The logarithm of each rank: neither the unit nor a few very slow kernels matter, and the best are told
    apart most. What failed has the last rank.
    """
    ranks = np.searchsorted(np.sort(known_us), scores_us, side="right") - 1
    logs: Floats = np.log(np.maximum(ranks, 0) / len(known_us) + FLATNESS)
    return logs


def by_share(scores_us: Floats, known_us: Floats) -> Floats:
    """The logarithm of the share by which each is above the best: what is nearly equal stays so, however many
    there are, where ranks would make a slope of a plateau. What failed counts as slower than the slowest.
    """
    timed = known_us[np.isfinite(known_us)]
    if not len(timed):
        return np.zeros(len(scores_us))
    above = np.clip(scores_us, timed.min(), FAILED * timed.max()) / timed.min() - 1
    logs: Floats = np.log(above + FLATNESS)
    return logs


def targets_of(
    scores_us: Sequence[float], *, among: Sequence[float] | None = None, scale: Scale = by_rank
) -> Floats:
    """What a model learns of scores (infinite: failed) `among` others, which are those themselves if none are
    given. Over these the mean is 0 and the deviation 1; all zero where there is nothing to tell apart.
    """
    known = np.array(scores_us if among is None else among)
    usual = scale(known, known)
    centred: Floats = scale(np.array(scores_us), known) - usual.mean()
    deviation = float(usual.std())
    return centred / deviation if deviation > 0 else np.zeros(len(centred))


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
