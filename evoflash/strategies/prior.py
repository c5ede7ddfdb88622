"""Prior says what searches for other problems tell of a genome here. Measures and proposes nothing.

Which genes are fast depends on the problem, but not at will: a Gaussian process over genes, proportions and
the sizes of the problem, taught outcomes of many searches, ranks the genomes of a problem that nobody has
searched. What a search then finds for itself is learnt as what differs from this.

    Earlier  One search's outcomes, with what tells its problem from others
    Prior    What they say of genomes here
    Trend    How far the targets of a search follow its prior
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evoflash.space import Genome
from evoflash.strategies.gaussian_process import (
    FLATNESS,
    Features,
    Floats,
    Ints,
    by_share,
    correlation,
    fit,
    usual_kernel,
)

MOST_OUTCOMES = 150  # of one search that are worth teaching, half of them its best
TAUGHT = 2000  # outcomes of all searches at most, the nearest first: a third of a second of CPU
FITTED_TO = 300  # of them the kernel is fitted to
TWICE = float(np.log(1 + FLATNESS))  # target of a genome twice as slow as the best: slower ones are all alike
SIZE = 0.25  # a size of the problem that is twice as large lies so far away, as of a proportion
TRUST = 8  # outcomes that have no more weight than the prior has


@dataclass(frozen=True, slots=True)
class Earlier:
    """One search's genomes and their times in us, infinite for what failed."""

    outcomes: tuple[tuple[Genome, float], ...]
    proportions: tuple[tuple[float, ...], ...] = ()  # of each genome, on that search's problem; or none
    sizes: tuple[float, ...] = ()  # of that problem: Proportions.sizes
    starts: tuple[Genome, ...] = ()  # its fastest genomes, where its problem is near and they are valid here
    # Where its problem is near: how many times as slow as the fastest kernel of all families the fastest of
    # this family was.
    behind: float | None = None


class Prior:
    """A Gaussian process on the outcomes of other problems; it is asked about genomes of this one."""

    def __init__(self, features: Features, sizes: Sequence[float], searches: Sequence[Earlier]) -> None:
        """`features` and `sizes` are of this problem. `searches`, one of which there is, are taken in their
        order, up to TAUGHT outcomes.
        """
        self._features, self._sizes = features, tuple(sizes)
        self._view: Ints = np.append(features.view, features.views + np.arange(len(self._sizes)))
        rows = np.vstack([self._rows_of(each) for each in searches])[:TAUGHT]
        targets = np.concatenate([_targets(each) for each in searches])[:TAUGHT]
        targets = (targets - targets.mean()) / (float(targets.std()) or 1.0)
        some = np.random.default_rng(0).permutation(len(targets))[:FITTED_TO]
        usual = usual_kernel(features.views + len(self._sizes))
        self._kernel = fit(usual, rows[some], self._view, targets[some])
        scaled = self._kernel.scale_rows(rows, self._view)
        covariance = correlation(scaled, scaled) + self._kernel.noise * np.eye(len(rows))
        self._weights = np.linalg.solve(covariance, targets).astype(np.float32)
        self._scaled = scaled.astype(np.float32)
        self._known: dict[Genome, float] = {}

    def _rows_of(self, search: Earlier) -> Floats:
        genomes = [genome for genome, _ in search.outcomes]
        return self._beside(self._features.rows(genomes, search.proportions), search.sizes)

    def _beside(self, rows: Floats, sizes: Sequence[float]) -> Floats:
        return np.hstack([rows, np.tile(SIZE * np.array(sizes), (len(rows), 1))])

    def of(self, genomes: Sequence[Genome]) -> Floats:
        """(genomes,): how slow each is expected to be, in the deviations of what was taught. Kept."""
        new = [genome for genome in dict.fromkeys(genomes) if genome not in self._known]
        if new:
            rows = self._beside(self._features.of(new), self._sizes)
            asked = self._kernel.scale_rows(rows, self._view).astype(np.float32)
            found = correlation(asked, self._scaled) @ self._weights
            self._known.update(zip(new, found.tolist(), strict=True))
        return np.array([self._known[genome] for genome in genomes])


def _targets(search: Earlier) -> Floats:
    """As by_share has them, up to twice the best's time; what failed is as slow."""
    scores = np.array([us for _, us in search.outcomes])
    return np.minimum(by_share(scores, scores), TWICE)


@dataclass(frozen=True, slots=True)
class Trend:
    """What a prior makes of genomes in the units of one search's targets; nothing without a prior."""

    prior: Prior | None
    slope: float = 0.0
    middle: float = 0.0

    def of(self, genomes: Sequence[Genome]) -> Floats:
        """(genomes,)"""
        if self.prior is None:
            return np.zeros(len(genomes))
        found: Floats = self.slope * (self.prior.of(genomes) - self.middle)
        return found


def trend_of(prior: Prior | None, genomes: Sequence[Genome], targets: Floats) -> Trend:
    """The line through the targets of genomes that this search tried, on what the prior says of them.

    It is believed as if TRUST outcomes had followed it; targets that fall where it rises make it flat.
    """
    if prior is None:
        return Trend(None)
    said = prior.of(genomes)
    middle = float(said.mean()) if len(said) else 0.0
    said = said - middle
    slope = (float(said @ targets) + TRUST) / (float(said @ said) + TRUST)
    return Trend(prior, max(0.0, slope), middle)
