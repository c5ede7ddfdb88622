"""Surrogate lets a Gaussian process learn from every outcome and choose among genomes near the best.

It evaluates none. The model is made again after every few outcomes, from these alone and the seed, so that a
resumed search goes on as an unbroken one does. At a standstill two picks of a batch are a jump and a random
genome, whatever the model says of them: it may be sure of what it never saw.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from evoflash.errors import UsageError
from evoflash.evaluation import Evaluation, Proposal
from evoflash.space import Genome, SearchSpace, Value
from evoflash.strategies.model.earlier import Earlier, doubts, targets_beside, transfer_genomes
from evoflash.strategies.model.features import Features
from evoflash.strategies.model.gaussian_process import (
    Covariance,
    by_rank,
    by_share,
    favourite,
    fit,
    posterior,
    some_of,
    targets_of,
    usual_kernel,
)
from evoflash.strategies.model.offers import BatchContext, Offers
from evoflash.strategies.populations import Population
from evoflash.strategies.unseen import Unseen

OPENING = 15  # proposals before the model is asked
OPENING_BESIDE_SEEDS = 6  # the same where there are seeds: random genomes are far worse
SEEDS = 20  # come first at most, a tenth of the default budget; the model may choose the others
FEWEST = 3  # outcomes with a time: fewer teach nothing
BATCH = 5  # outcomes after which the model is made again; so many more for each
EACH = 200  # outcomes there are, for it takes the longer, and each tells less
LEARNT_FROM, FITTED_TO = 300, 150  # at most so many outcomes: the model, and its kernel
FIRST_FIT = 15  # outcomes when the kernel is fitted first
LATER = 1.25  # times as many for each further fit
ELITES = 6  # genomes whose neighbours are offered
STANDSTILL = 20  # outcomes without a gain
GAIN = 1.001  # times as fast: less is no gain
# A batch's picks, and those at a standstill; of a space without tiles the model picks freely instead.
MOVING = ("model", "model", "model", "model", "tile")
STANDING = ("model", "model", "tile", "jump", "immigrant")
_Condition = Callable[[Genome], bool]


class Surrogate:
    """Proposes seeds and random genomes first, then what the model prefers."""

    def __init__(
        self,
        space: SearchSpace,
        *,
        seed: int,
        seeds: tuple[Genome, ...] = (),
        first: int = SEEDS,
        earlier: tuple[Earlier, ...] = (),
    ) -> None:
        """`first`: so many seeds come before the model's own choice; `earlier`: searches on near problems."""
        self._space, self._seed, self._first, self._earlier = space, seed, first, earlier
        self._seeds = tuple(genome for genome in seeds if self._fits(genome))
        self._unseen = Unseen(space, seed=seed)
        self._offers = Offers(space, seed=seed, seeds=self._seeds)
        self._features = Features(space)
        # Kernels that fill a GPU alike take nearly equal times: plateaus, of which ranks make slopes.
        # On recorded spaces of other kernels ranks did better (measured on 2026-11-23).
        self._scale = by_share if space.proportions else by_rank
        self._kernels: dict[int, Covariance] = {}  # by the number of outcomes that they were fitted to
        self._told: list[Evaluation] = []
        self._in_flight: dict[Genome, None] = {}  # in the order of asking
        self._learnt = 0  # outcomes that the picks know of
        # A space declares its tile first: elites of several tiles, as evolution has them.
        self._elites = Population(cell=space.blocks[0] if space.blocks else (), size=ELITES)
        self._picks: Iterator[Proposal] = iter(())

    def ask(self) -> Proposal | None:
        """A seed, a random genome at first, then the next pick; None when nothing new is left."""
        proposal = self._opening() or self._pick() or self._sample()
        if proposal is not None:
            self._unseen.take(proposal.genome)
            self._in_flight[proposal.genome] = None
        return proposal

    def tell(self, proposal: Proposal, evaluation: Evaluation) -> None:
        """Remember the outcome; the model is made when it is needed."""
        self._unseen.take(proposal.genome)
        self._in_flight.pop(proposal.genome, None)
        if self._fits(proposal.genome):
            self._told.append(evaluation)

    def _fits(self, genome: Genome) -> bool:
        # A store may hold genomes of an older version of the family; seeds may ask too much of this GPU.
        try:
            return self._space.genome(genome.as_dict()) == genome and self._space.is_valid(genome)
        except UsageError:
            return False

    def _opening(self) -> Proposal | None:
        for seed in self._seeds[: self._first]:
            if seed in self._unseen:
                return Proposal(seed, "seed")
        opening = OPENING_BESIDE_SEEDS if self._seeds else OPENING
        return self._sample() if self._unseen.proposal_count < opening else None

    def _sample(self) -> Proposal | None:
        genome = self._unseen.draw(self._unseen.rng())
        return None if genome is None else Proposal(genome)

    def _pick(self) -> Proposal | None:
        batch = BATCH * max(1, len(self._told) // EACH)
        learnt = len(self._told) // batch * batch
        if learnt != self._learnt:
            for evaluation in self._told[self._learnt : learnt]:
                self._elites.add(evaluation)
            self._learnt, self._picks = learnt, self._batches(self._batch_context(self._told[:learnt]))
        return next((proposal for proposal in self._picks if proposal.genome in self._unseen), None)

    def _batch_context(self, told: Sequence[Evaluation]) -> BatchContext:
        in_flight = tuple(self._in_flight)
        taken = {evaluation.genome for evaluation in told}.union(in_flight)
        rng = np.random.default_rng([self._seed, len(told), 2])
        elites = tuple(elite.genome for elite in self._elites.elites)
        return BatchContext(told, in_flight, elites, tuple(self._offers.points(rng)), taken, rng)

    def _batches(self, known: BatchContext) -> Iterator[Proposal]:
        """Proposals in the order in which they are wanted.

        They depend on `known` alone and not on what was proposed meanwhile: a resumed search makes the same
        ones again and passes over those that it finds in its history.
        """
        fewest = 1 if self._earlier else FEWEST
        if not known.elites or sum(each.learnt_us is not None for each in known.told) < fewest:
            return
        prefer = self._preference(known)
        for kind in itertools.cycle(STANDING if _stands_still(known.told) else MOVING):
            if kind == "tile":
                proposal = prefer(self._of_new_tiles(known)) or prefer(None)
            elif kind == "model":
                proposal = prefer(None)
            else:
                proposal = self._offers.jump(known) if kind == "jump" else self._offers.immigrant(known)
            proposal = proposal or self._offers.immigrant(known)
            if proposal is None:
                return
            known.taken.add(proposal.genome)
            yield proposal

    def _preference(self, known: BatchContext) -> Callable[[_Condition | None], Proposal | None]:
        """Gives, of what is offered and not taken, the model's favourite that meets a condition."""
        offers = {
            each.genome: each
            for each in self._offers.all(known, self._elites)
            if each.genome not in known.taken
        }
        pool = list(offers.values())
        own = {each.genome: _score_us(each) for each in known.told}
        near = transfer_genomes(self._earlier, own)
        scores = [_score_us(each) for each in known.told]
        targets, weak = targets_beside(scores, [us for _, us in near], self._scale)
        some = some_of(targets, LEARNT_FROM)
        rows = self._features.of([*(known.told[at].genome for at in some), *(genome for genome, _ in near)])
        expected = posterior(
            self._kernel(known.told),
            self._features.view,
            rows,
            np.concatenate([targets[some], weak]),
            self._features.of(list(offers)),
            doubts=doubts(len(some), len(near)),
            in_flight=self._features.of(known.in_flight),
        )
        best = float(targets.min())

        def prefer(meets: _Condition | None) -> Proposal | None:
            among = [
                each.genome not in known.taken and (meets is None or meets(each.genome)) for each in pool
            ]
            return pool[favourite(expected, best, np.array(among))] if any(among) else None

        return prefer

    def _of_new_tiles(self, known: BatchContext) -> _Condition:
        """Whether a genome's tile is none that was tried; a space without blocks has none that is new."""
        tile = self._space.blocks[0] if self._space.blocks else ()
        tried = {_values_of(genome, tile) for genome in known.taken}
        return lambda genome: _values_of(genome, tile) not in tried

    def _kernel(self, told: Sequence[Evaluation]) -> Covariance:
        """Fitted more rarely the more outcomes there are, each time from where the last fit came to."""
        kernel, count = usual_kernel(self._features.views), FIRST_FIT
        while count <= len(told):
            if count not in self._kernels:
                scores = [_score_us(evaluation) for evaluation in told[:count]]
                targets = targets_of(scores, scale=self._scale)
                some = some_of(targets, FITTED_TO)
                rows = self._features.of([told[at].genome for at in some])
                self._kernels[count] = fit(kernel, rows, self._features.view, targets[some])
            kernel, count = self._kernels[count], int(count * LATER)
        return kernel


def _values_of(genome: Genome, genes: Sequence[str]) -> tuple[Value | None, ...]:
    values = genome.as_dict()
    return tuple(values.get(gene) for gene in genes)


def _score_us(evaluation: Evaluation) -> float:
    """Infinite for what failed; a timing that was stopped early counts as what it had come to."""
    us = evaluation.learnt_us
    return np.inf if us is None else us


def _stands_still(told: Sequence[Evaluation]) -> bool:
    """Whether the newest outcomes have brought no gain."""
    scores = [_score_us(each) if each.is_rankable and not each.is_censored else np.inf for each in told]
    before = min(scores[:-STANDSTILL], default=np.inf)
    return len(told) > STANDSTILL and before <= GAIN * min(scores)
