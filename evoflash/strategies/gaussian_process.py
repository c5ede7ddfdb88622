"""A Gaussian process on genomes, and which of many it would try next. Knows no store and no problem.

Genomes become rows of numbers between which distances mean something. A row has several views of each gene, a
view with columns of its own: the position of a number among its values, from 0 to 1; which value it is, a
column for each, so that all are equally far apart (one may be fast between neighbours that are slow); how
often 2 divides it, for what warps, banks and sectors divide evenly is often fast alike; and whether it is
active, where it may not be. Two values are about 1 apart at most in each view. Where the space knows
proportions of a genome, these stand in the place of what 2 divides, a view each. How much a view counts is
for the model to find out.

The process tells what is expected of rows that were not tried, and how surely. Matern 3/2 covariance with a
length for each view, a mean of 0, and noise (C. E. Rasmussen, C. Williams, Gaussian Processes for Machine
Learning, 2006, sections 2.2, 4.2 and 5.4). In NumPy.

What the model is taught of an outcome is made here too.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.space import Genome, Param, SearchSpace

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]

_MIDDLE = 0.5  # where an inactive gene of numbers stands
_PROPORTION = 0.25  # a proportion that is twice as large lies so far away, for most are powers of two
_APART = np.sqrt(0.5)  # in the column of a value: two values are then 1 apart


class Features:
    """The rows of one space's genomes; `view` is the number of each column's view."""

    def __init__(self, space: SearchSpace) -> None:
        free = [param for param in space.params if len(param.values) > 1 or param.name in space.when]
        views = [
            _views(param, may_be_inactive=param.name in space.when, by_twos=not space.proportions)
            for param in free
        ]
        self._tables = [np.hstack([table for _, table in kinds]) for kinds in views]
        self._codes = [
            (param.name, {(type(value), value): at for at, value in enumerate(param.values)})
            for param in free
        ]
        self._proportions = space.proportions
        self._kept: dict[Genome, Floats] = {}
        found = [(kind, table.shape[1]) for kinds in views for kind, table in kinds]
        found += [("proportion", 1)] * len(self._proportions.names if self._proportions else ())
        self.kinds = tuple(kind for kind, _ in found)
        widths = [width for _, width in found]
        self.views = len(widths)
        self.view: Ints = np.repeat(np.arange(self.views), widths)

    def codes(self, genomes: Sequence[Genome]) -> Ints:
        """(genomes, genes that have other values): the number of each value, -1 where it is inactive."""
        codes = np.full((len(genomes), len(self._codes)), -1, dtype=np.int64)
        for row, genome in enumerate(genomes):
            values = genome.as_dict()
            for column, (name, known) in enumerate(self._codes):
                if name in values:
                    codes[row, column] = known[type(values[name]), values[name]]
        return codes

    def of(self, genomes: Sequence[Genome]) -> Floats:
        """(genomes, columns). Rows are kept: a genome is offered in many batches."""
        if new := [genome for genome in dict.fromkeys(genomes) if genome not in self._kept]:
            known = self._proportions
            rows = self.rows(new, [known.of(genome) for genome in new] if known else ())
            self._kept.update(zip(new, rows, strict=True))
        found = [self._kept[genome] for genome in genomes]
        return np.array(found).reshape(len(found), len(self.view))

    def rows(self, genomes: Sequence[Genome], proportions: Sequence[tuple[float, ...]]) -> Floats:
        """The same of genomes whose proportions are known: of another problem, say."""
        codes = self.codes(genomes)
        parts = [table[codes[:, at]] for at, table in enumerate(self._tables)]
        if self._proportions:
            names = len(self._proportions.names)
            parts.append(_PROPORTION * np.array(proportions, dtype=np.float64).reshape(len(genomes), names))
        return np.hstack(parts) if parts else np.zeros((len(genomes), 0))


def _views(param: Param, *, may_be_inactive: bool, by_twos: bool) -> list[tuple[str, Floats]]:
    """Kinds of views, each (values + 1, columns): a row for each value, the last for the inactive gene."""
    size = len(param.values)
    is_number = all(isinstance(value, int) and not isinstance(value, bool) for value in param.values)
    views: list[tuple[str, Floats]] = []
    if is_number and size > 1:
        position = np.append(np.linspace(0.0, 1.0, size), _MIDDLE)[:, None]
        views.append(("position" if size > 2 else "switch", position))
    if not is_number or size > 2:
        views.append(("value" if size > 2 else "switch", np.vstack([np.eye(size) * _APART, np.zeros(size)])))
    if by_twos and is_number and all(param.values):  # what counts from 0 is no size
        twos = _evenness(np.array([_twos(int(value)) for value in param.values]))
        views += [("twos", table) for table in twos]
    if may_be_inactive:
        views.append(("switch", np.append(np.zeros(size), 1.0)[:, None]))
    return views


def _evenness(twos: Ints) -> list[Floats]:
    """A view of how often 2 divides each value; none where it rises or falls along them, as positions do."""
    steps = np.diff(twos)
    if not ((steps > 0).any() and (steps < 0).any()):
        return []
    return [np.append((twos - twos.min()) / np.ptp(twos), _MIDDLE)[:, None]]


def _twos(number: int) -> int:
    return (number & -number).bit_length() - 1


USUAL_NOISE = 0.05  # share of the variance
# Logarithms: how much more than usual each kind of view counts. A switch changes a time by little, and which
# value a size has tells less than where it stands among its values.
COUNTS = {"position": 0.5, "value": -1.5, "twos": -0.3, "switch": -0.7}
SPREAD = 1.5  # standard deviation of the logarithms of scales and noise, before anything is known
LEAST, MOST = -6.0, 4.0  # of these logarithms
STEPS = 15  # of the ascent
FIRST_STEP, LONGEST_STEP, LONGER, SHORTER = 0.3, 1.0, 1.3, 0.5  # resilient propagation: signs of the gradient
_JITTER = 1e-6
_ROOM = 64  # outcomes that a growing posterior makes room for at a time


@dataclass(frozen=True, slots=True)
class Covariance:
    """How fast each view of a gene makes genomes unlike; the variance is that of the targets."""

    log_scales: Floats  # (views,), of the reciprocal lengths
    log_noise: float

    def scale_rows(self, rows: Floats, view: Ints) -> Floats:
        """Rows in which a Euclidean distance of 1 is one length."""
        scaled: Floats = rows * np.exp(self.log_scales)[view]
        return scaled

    @property
    def noise(self) -> float:
        return float(np.exp(self.log_noise)) + _JITTER


def usual_kernel(views: int) -> Covariance:
    """Before any outcome: lengths that grow with the root of the number of views, so that random genomes
    of a space of many genes still tell of each other (C. Hvarfner et al., 2024, on such priors).
    """
    return Covariance(np.full(views, -0.5 * np.log(max(1.0, views / 4))), float(np.log(USUAL_NOISE)))


def kernel_by_kind(features: Features) -> Covariance:
    """The usual kernel where kinds of views count as they did on recorded spaces of other kernels."""
    usual = usual_kernel(features.views)
    more = np.array([COUNTS.get(kind, 0.0) for kind in features.kinds])
    return Covariance(usual.log_scales + more, usual.log_noise)


def fit(
    start: Covariance, rows: Floats, view: Ints, targets: Floats, *, usual: Covariance | None = None
) -> Covariance:
    """The kernel under which the targets are likely: an ascent from `start`, kept near the usual kernel."""
    usual = usual or usual_kernel(len(start.log_scales))
    middle = np.append(usual.log_scales, usual.log_noise)
    at = np.append(start.log_scales, start.log_noise)
    best, best_at = -np.inf, at
    step, before = np.full(len(at), FIRST_STEP), np.zeros(len(at))
    for _ in range(STEPS):
        value, slope = _likelihood(Covariance(at[:-1], float(at[-1])), rows, view, targets)
        value -= 0.5 * float((((at - middle) / SPREAD) ** 2).sum())
        if value > best:
            best, best_at = value, at
        sign = np.sign(slope - (at - middle) / SPREAD**2)
        step = np.minimum(step * np.where(sign == before, LONGER, SHORTER), LONGEST_STEP)
        at, before = np.clip(at + sign * step, LEAST, MOST), sign
    return Covariance(best_at[:-1], float(best_at[-1]))


def _likelihood(kernel: Covariance, rows: Floats, view: Ints, targets: Floats) -> tuple[float, Floats]:
    """The logarithm of the targets' likelihood, and its slope along the logarithms of scales and noise."""
    scaled = kernel.scale_rows(rows, view)
    far = distance(scaled, scaled)
    decay = np.exp(-far)
    covariance = (1 + far) * decay + kernel.noise * np.eye(len(rows))
    factor = np.linalg.cholesky(covariance)
    inverse = np.linalg.inv(covariance)
    weights = inverse @ targets
    variance = float(targets @ weights) / len(rows)
    value = -0.5 * len(rows) * np.log(variance) - float(np.log(np.diag(factor)).sum())
    inner = np.outer(weights, weights) / variance - inverse
    pull = inner * decay
    columns = 2 * ((pull.sum(axis=1) @ scaled**2) - (scaled * (pull @ scaled)).sum(axis=0))
    slopes = -1.5 * np.bincount(view, columns, len(kernel.log_scales))
    return value, np.append(slopes, 0.5 * float(np.trace(inner)) * kernel.noise)


def distance(one: Floats, other: Floats) -> Floats:
    """(rows of one, rows of other): sqrt(3) times the Euclidean distance."""
    squared = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1) - 2 * one @ other.T
    distance: Floats = np.sqrt(3 * np.maximum(squared, 0.0))
    return distance


def correlation(one: Floats, other: Floats) -> Floats:
    """(rows of one, rows of other), from 0 to 1, of scaled rows."""
    far = distance(one, other)
    correlated: Floats = (1 + far) * np.exp(-far)
    return correlated


@dataclass(slots=True)
class Posterior:
    """What is known of some rows after outcomes: changes as rows are assumed to have been tried.

    `mean` is in units of the targets; `whitened` (outcomes, rows) and `assumed` are what covariances between
    the rows are made of.
    """

    scaled: Floats
    mean: Floats
    share: Floats  # of the variance that is left, from 0 to 1
    whitened: Floats
    noise: float
    amplitude: float  # variance of the targets
    assumed: list[Floats] = field(default_factory=list)

    @property
    def deviation(self) -> Floats:
        deviation: Floats = np.sqrt(self.amplitude * self.share)
        return deviation

    def assume(self, at: int) -> None:
        """Go on as if row `at` had been tried and found as expected: means stay, variances shrink."""
        beside = correlation(self.scaled[[at]], self.scaled)[0] - self.whitened[:, at] @ self.whitened
        for earlier in self.assumed:
            beside -= earlier[at] * earlier
        spread = beside / np.sqrt(beside[at] + self.noise)
        self.assumed.append(spread)
        self.share = np.maximum(self.share - spread**2, 1e-9)


def posterior(
    kernel: Covariance,
    view: Ints,
    rows: Floats,
    targets: Floats,
    asked: Floats,
    *,
    in_flight: Floats | None = None,
) -> Posterior:
    """What `targets` (n,) of `rows` (n, columns) say of `asked` (m, columns).

    Rows `in_flight` are assumed to come out as expected, as Posterior.assume does for one of `asked`. Without
    targets nothing is known but that they vary by 1.
    """
    count = len(rows)
    if in_flight is not None:
        rows = np.vstack([rows, in_flight])
    known, wanted = kernel.scale_rows(rows, view), kernel.scale_rows(asked, view)
    covariance = correlation(known, known) + kernel.noise * np.eye(len(known))
    unmixing = np.linalg.inv(np.linalg.cholesky(covariance))
    whitened = unmixing @ correlation(known, wanted)
    innovations = unmixing[:count, :count] @ targets  # those of rows in flight are 0: they are as expected
    return Posterior(
        scaled=wanted,
        mean=innovations @ whitened[:count],
        share=np.maximum(1 - (whitened**2).sum(axis=0), 1e-9),
        whitened=whitened,
        noise=kernel.noise,
        amplitude=float(innovations @ innovations) / count if count else 1.0,
    )


class GrowingPosterior:
    """What is known of many rows, to which an outcome adds little work: a model after each is affordable.

    The rows of outcomes that the kernel was fitted to are taken in at once and later ones each by itself, in
    their order: a resumed search computes the same numbers to the bit. Single precision, but for what the
    outcomes say of one another.
    """

    def __init__(self, asked: Floats, view: Ints, kernel: Covariance, known: Sequence[int]) -> None:
        """`known`: the numbers of the rows (of `asked`) that there are outcomes of."""
        self._kernel, self._known = kernel, list(known)
        count, room = len(known), len(known) + _ROOM
        self._scaled = kernel.scale_rows(asked, view).astype(np.float32)
        beside = correlation(self._scaled[self._known], self._scaled)
        covariance = beside[:, self._known].astype(np.float64) + kernel.noise * np.eye(count)
        self._unmixing = np.zeros((room, room))
        self._unmixing[:count, :count] = np.linalg.inv(np.linalg.cholesky(covariance))
        self._whitened = np.zeros((room, len(asked)), dtype=np.float32)
        self._whitened[:count] = self._unmixing[:count, :count].astype(np.float32) @ beside
        self._share = 1 - (self._whitened[:count] ** 2).sum(axis=0)

    def learn(self, row: int) -> None:
        """Take in that there is an outcome of one more row."""
        count = len(self._known)
        if count == len(self._whitened):
            self._whitened = np.pad(self._whitened, ((0, _ROOM), (0, 0)))
            self._unmixing = np.pad(self._unmixing, (0, _ROOM))
        along = self._whitened[:count, row]
        rest = correlation(self._scaled[[row]], self._scaled)[0] - along @ self._whitened[:count]
        left = math.sqrt(max(float(rest[row]) + self._kernel.noise, _JITTER))
        self._whitened[count] = rest / left
        self._unmixing[count, :count] = -(along @ self._unmixing[:count, :count]) / left
        self._unmixing[count, count] = 1 / left
        self._share -= self._whitened[count] ** 2
        self._known.append(row)

    def after(self, targets: Floats) -> Posterior:
        """What the targets of the known rows, in their order, say of all."""
        count = len(self._known)
        innovations = self._unmixing[:count, :count] @ targets
        return Posterior(
            scaled=self._scaled,
            mean=innovations.astype(np.float32) @ self._whitened[:count],
            share=np.maximum(self._share, 1e-9),
            whitened=self._whitened[:count],
            noise=self._kernel.noise,
            amplitude=float(innovations @ innovations) / count,
        )


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
    True in `among`, one of which there is.
    """
    gains = expected_gain(known.mean, known.deviation, best)
    return int(np.argmax(np.where(among, gains, -1.0)))


def expected_gain(mean: Floats, deviation: Floats, best: float) -> Floats:
    """How far below `best` a normal variable is expected to be, counted as 0 where it is above. One that does
    not vary is what it is: what was assumed of a genome leaves nothing to expect of one like it.
    """
    varies = deviation > 0
    z = np.divide(best - mean, deviation, out=np.zeros_like(deviation), where=varies)
    gain = deviation * (z * _normal(z) + np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi))
    found: Floats = np.where(varies, gain, np.maximum(best - mean, 0.0))
    return found


def _normal(z: Floats) -> Floats:
    """The normal distribution function; NumPy has none."""
    below: Floats = 0.5 * _erfc(-z / np.sqrt(2)).astype(np.float64)
    return below
