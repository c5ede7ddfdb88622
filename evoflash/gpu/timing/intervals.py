"""A robust interval of the ratio of paired times, and whether it is faster, slower or unclear.

One sample is the logarithm of a ratio of two times taken close together. Their mean without the outer eighths
has a Student interval whose spread is that of the Winsorized samples (Yuen 1974): an interruption that hits
one sample neither moves the ratio nor passes for precision. Whoever looks again and again while samples come
in divides `ALPHA` by the number of looks, which bounds false alarms whatever the order of the samples. Times
nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

ALPHA = 0.002  # of a whole comparison: the chance that its interval misses the ratio
# Two copies of one kernel, loaded apart, came out up to 0.1 % apart in 400 comparisons on an H200
# (docs/timing.md): where code lies is no merit. Below this nothing is called faster.
MINIMAL_EFFECT = 0.003
FEWEST = 5  # samples that an interval is made of
_TRIMMED = 0.125  # of the samples at either end


@dataclass(frozen=True, slots=True)
class RatioInterval:
    """A ratio of times with its interval; (nan, 0, inf) where samples are too few to say."""

    ratio: float
    low: float
    high: float


def interval(log_ratios: Sequence[float], *, alpha: float = ALPHA) -> RatioInterval:
    """The ratio of times and its two-sided interval, missed with probability alpha; none below 5 samples."""
    samples = np.sort(np.asarray(log_ratios, float))
    if len(samples) < FEWEST:
        return RatioInterval(math.nan, 0.0, math.inf)
    cut = int(_TRIMMED * len(samples))
    kept = samples[cut : len(samples) - cut]
    pulled_in = np.clip(samples, kept[0], kept[-1])
    error = math.sqrt(float(((pulled_in - pulled_in.mean()) ** 2).sum()) / (len(kept) * (len(kept) - 1)))
    middle, reach = float(kept.mean()), error * student(alpha, len(kept) - 1)
    return RatioInterval(math.exp(middle), math.exp(middle - reach), math.exp(middle + reach))


def scale(found: RatioInterval, *, by: float) -> RatioInterval:
    """The interval of a ratio as one of times, given the time that it is a ratio to."""
    return RatioInterval(by * found.ratio, by * found.low, by * found.high)


def answer(low: float, high: float, *, noise: float) -> str:
    """'faster', 'slower' or 'unclear' of the one whose time stands above the line."""
    if high < 1 - noise:
        return "faster"
    return "slower" if low > 1 + noise else "unclear"


def is_settled(found: RatioInterval, *, noise: float) -> bool:
    """Whether more samples would hardly change the answer: clear, or so narrow that it will not become so."""
    is_narrow = found.low > 1 - noise and found.high < 1 + noise
    return is_narrow or answer(found.low, found.high, noise=noise) != "unclear"


@lru_cache(maxsize=256)
def student(alpha: float, freedom: int) -> float:
    """What |t| exceeds with probability alpha, at that many degrees of freedom."""
    low, high = 0.0, -NormalDist().inv_cdf(alpha / 2)
    while _beyond(high, freedom) > alpha:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _beyond(middle, freedom) > alpha else (low, middle)
    return high


def _beyond(t: float, freedom: int) -> float:
    """Probability that |t| is larger: the finite series of Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    start = freedom % 2  # even: powers 0, 2, ...; odd: 1, 3, ...
    term, total = (cosine if start else 1.0), 0.0
    for power in range(start, freedom - 1, 2):
        total += term
        term *= cosine * cosine * (power + 1) / (power + 2)
    inside = 2 / math.pi * (angle + sine * total) if start else sine * total
    return max(0.0, 1 - inside)
