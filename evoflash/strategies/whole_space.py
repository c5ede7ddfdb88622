"""WholeSpace asks a Gaussian process about every genome of a space that names no tile. Evaluates none.

Kernels that others recorded, and families of few genes, have some thousand valid genomes. All of them can be
judged after each outcome, so that the way out of a local optimum is among what is judged wherever it lies. Of
a larger space so many genomes are judged that were drawn once, and the neighbours of the best.

The opening is spread out: each of its genomes is the one that is farthest from those before it. Where earlier
searches are known, it is of those that they prefer. All proposals are a function of the seed, of the outcomes
that are known and of these searches.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from evoflash.evaluation import Proposal
from evoflash.space import Genome, SearchSpace
from evoflash.strategies.gaussian_process import (
    Flags,
    GrowingPosterior,
    Posterior,
    distance,
    favourite,
    fit,
    kernel_by_kind,
    some_of,
    targets_of,
)
from evoflash.strategies.model_strategy import ModelStrategy
from evoflash.strategies.neighbourhood import Neighbourhood
from evoflash.strategies.prior import Earlier
from evoflash.strategies.surrogate import (
    ELITES,
    FEWEST,
    FITTED_TO,
    LATER,
    LEARNT_FROM,
    OPENING_BESIDE_SEEDS,
    PAIRS,
    SEEDS,
    stands_still,
)

LISTED = 20_000  # genomes that are judged; raw points of a space that is listed, about 0.1 ms each
OPENING = 10  # proposals before the model is asked, where there are no seeds
FOLLOWED = 4  # in flight for each outcome more after which the model is asked again
STANDSTILL = 10  # outcomes without a gain, after which some picks are far from the best
FAR = 0.5  # share of its genes in which a genome differs from the best
STANDING = "model", "far", "model", "model", "far"  # picks at a standstill


class WholeSpace(ModelStrategy):
    """Proposes seeds and genomes far from one another first, then what the model prefers of all."""

    def __init__(
        self,
        space: SearchSpace,
        *,
        seed: int,
        seeds: tuple[Genome, ...] = (),
        first: int = SEEDS,
        earlier: tuple[Earlier, ...] = (),
    ) -> None:
        super().__init__(space, seed=seed, seeds=seeds, first=first, earlier=earlier)
        self._around = Neighbourhood(space)
        self._usual = self._kernel = kernel_by_kind(self._features)
        self._next_fit = OPENING
        self._model: GrowingPosterior | None = None
        self._learnt: list[int] = []  # the numbers of the outcomes that the model has taken in, in its order
        self._seen = 0  # outcomes that the picks know of
        self._drawn, self._is_whole = space.some(LISTED, np.random.default_rng([seed, 1]))
        self._judge(self._drawn)

    def _judge(self, genomes: tuple[Genome, ...]) -> None:
        self._judged = genomes
        self._at = {genome: at for at, genome in enumerate(genomes)}
        self._rows, self._codes = self._features.of(genomes), self._features.codes(genomes)

    def _next(self) -> Proposal | None:
        """A seed, a genome of the opening, then the next pick."""
        return self._next_seed() or self._pick() or self._spread() or self._sample()

    def _spread(self) -> Proposal | None:
        """Of all that is judged the genome that earlier searches prefer, or without any the one that is
        farthest from what was proposed.
        """
        known = self._numbers_asked()
        if len(known) == len(self._judged):
            return None
        if self._prior is not None:
            slow = self._prior.of(self._judged)
            slow[known] = np.inf
            return Proposal(self._judged[int(np.argmin(slow))], "model")
        if not known:
            return None
        scaled = self._usual.scale_rows(self._rows, self._features.view)
        nearest = distance(scaled[known], scaled).min(axis=0)
        nearest[known] = -1.0
        return Proposal(self._judged[int(np.argmax(nearest))])

    def _numbers_asked(self) -> list[int]:
        """Where the genomes that were told or are in flight stand among those that are judged."""
        genomes = [*(each.genome for each in self._told), *self._in_flight]
        return [self._at[genome] for genome in genomes if genome in self._at]

    def _pick(self) -> Proposal | None:
        opening = OPENING_BESIDE_SEEDS if self._seeds or self._earlier else OPENING
        if self._unseen.proposal_count < opening:
            return None
        if len(self._told) > self._seen + len(self._in_flight) // FOLLOWED:
            for count in range(self._seen + 1, len(self._told) + 1):
                self._learn(count)
            self._seen, self._picks = len(self._told), self._picks_in_order()
        return next((proposal for proposal in self._picks if proposal.genome in self._unseen), None)

    def _learn(self, count: int) -> None:
        """Take in one more outcome: all anew where the kernel, or what is judged, becomes another."""
        scores = self._scores()[:count]
        if sum(np.isfinite(scores)) < FEWEST or count < OPENING_BESIDE_SEEDS:
            return
        genome = self._told[count - 1].genome
        is_best = not self._is_whole and scores[-1] < min(scores[:-1])
        is_due = count >= self._next_fit
        if self._model is not None and not (is_due or is_best) and genome in self._at:
            self._model.learn(self._at[genome])
            self._learnt.append(count - 1)
            return
        targets = targets_of(scores, scale=self._scale)
        if is_due and targets.any():
            some, trend = some_of(targets, FITTED_TO), self._trend(self._told[:count], targets)
            rows = self._features.of([self._told[at].genome for at in some])
            rest = self._beside(trend, targets, some)
            self._kernel = fit(self._kernel, rows, self._features.view, rest, usual=self._usual)
            self._next_fit = max(count + 1, int(self._next_fit * LATER))
        if not self._is_whole:
            self._judge(self._near_best(scores))
        self._learnt = [int(at) for at in some_of(targets, LEARNT_FROM)]
        known = [self._at[self._told[at].genome] for at in self._learnt]
        self._model = GrowingPosterior(self._rows, self._features.view, self._kernel, known)

    def _near_best(self, scores: list[float]) -> tuple[Genome, ...]:
        """What was drawn and told, and the neighbours of the best."""
        told = [evaluation.genome for evaluation in self._told[: len(scores)]]
        found = dict.fromkeys([*self._drawn, *told])
        for at in np.argsort(scores, kind="stable")[:ELITES]:
            rng = np.random.default_rng([self._seed, int(told[at].id, 16), len(scores)])
            found.update(dict.fromkeys(self._around.one_gene(told[at])))
            found.update(dict.fromkeys(self._around.two_genes(told[at], rng, count=PAIRS)))
        return tuple(found)

    def _scores(self) -> list[float]:
        """In us; infinite for what failed."""
        found = (evaluation.learnt_us for evaluation in self._told)
        return [np.inf if us is None else us for us in found]

    def _picks_in_order(self) -> Iterator[Proposal]:
        """Proposals in the order in which they are wanted."""
        if self._model is None:
            return
        scores = self._scores()
        expected, best = self._expectation(self._model, scores)
        free = np.ones(len(self._judged), dtype=bool)
        free[self._numbers_asked()] = False
        for genome in self._in_flight:
            if genome in self._at:
                expected.assume(self._at[genome])
        is_still = stands_still(self._told, STANDSTILL)
        far = self._far_from_best(scores) if is_still else free
        for picks in itertools.count(len(scores)):
            if not free.any():
                return
            among = free & far if STANDING[picks % len(STANDING)] == "far" else free
            at = favourite(expected, best, among if among.any() else free)
            free[at] = False
            yield Proposal(self._judged[at], "model")
            expected.assume(at)

    def _far_from_best(self, scores: list[float]) -> Flags:
        """Which of all differ from the best in many of the genes that have other values."""
        best = self._features.codes([self._told[int(np.argmin(scores))].genome])
        differing = (self._codes != best).sum(axis=1)
        return np.asarray(differing >= max(2, math.ceil(FAR * self._codes.shape[1])))

    def _expectation(self, model: GrowingPosterior, scores: list[float]) -> tuple[Posterior, float]:
        """What is expected of all that is judged, and the best target there is."""
        targets = targets_of(scores, scale=self._scale)
        trend = self._trend(self._told, targets)
        expected = model.after(self._beside(trend, targets, self._learnt))
        expected.mean += trend.of(self._judged)
        return expected, float(targets.min())
