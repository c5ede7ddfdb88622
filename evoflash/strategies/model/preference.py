"""What a model is taught of outcomes, and which of many rows it would try next. Knows numbers only.

A row is preferred by expected improvement: how much better than the best it is expected to be, where it is
(D. R. Jones et al., 1998). Each pick is then assumed to be as expected, so that the next one differs.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from evoflash.strategies.model.features import Floats, Ints
from evoflash.strategies.model.gaussian_process import Posterior

_erfc = np.frompyfunc(math.erfc, 1, 1)

FLATNESS = 0.05  # added to a rank from 0 to 1 before its logarithm: the very best differ by no more than that
ALIKE = 1.001  # times as slow at most: one rank, so that a plateau of many equals is one step and not a slope


def targets_of(scores_us: Sequence[float], *, among: Sequence[float] | None = None) -> Floats:
    """What a model learns of scores (infinite: failed): the logarithm of each rank `among` scores, which are
    those themselves if none are given. Over these the mean is 0 and the deviation 1.

    Ranks, so that neither the unit nor a few very slow kernels matter; logarithms, so that the best are told
    apart most. Scores that differ by less than ALIKE share a rank. What failed has the last rank. All zero
    where there is nothing to tell apart.
    """
    known = np.array(scores_us if among is None else among)
    steps = _steps(known)
    usual = _logs(known, steps)
    centred: Floats = _logs(np.array(scores_us), steps) - usual.mean()
    deviation = float(usual.std())
    return centred / deviation if deviation > 0 else np.zeros(len(centred))


def _steps(scores_us: Floats) -> Floats:
    """The least score of each rank, ascending."""
    steps: list[float] = []
    for us in np.unique(scores_us).tolist():
        if not steps or us > steps[-1] * ALIKE:
            steps.append(us)
    return np.array(steps)


def _logs(scores_us: Floats, steps: Floats) -> Floats:
    ranks = np.maximum(np.searchsorted(steps, scores_us, side="right") - 1, 0)
    logs: Floats = np.log(ranks / len(steps) + FLATNESS)
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


def preferred(known: Posterior, best: float) -> Iterator[int]:
    """Rows of the posterior by expected improvement on the target `best`, one after the other."""
    left = np.ones(len(known.mean), dtype=bool)
    while left.any():
        gains = expected_gain(known.mean, known.deviation, best)
        at = int(np.argmax(np.where(left, gains, -1.0)))
        yield at
        left[at] = False
        known.assume(at)


def expected_gain(mean: Floats, deviation: Floats, best: float) -> Floats:
    """How far below `best` a normal variable is expected to be, counted as 0 where it is above."""
    z = (best - mean) / deviation
    gain: Floats = deviation * (z * _normal(z) + np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi))
    return gain


def _normal(z: Floats) -> Floats:
    """The normal distribution function; NumPy has none."""
    below: Floats = 0.5 * _erfc(-z / np.sqrt(2)).astype(np.float64)
    return below
