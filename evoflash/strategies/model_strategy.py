"""ModelStrategy has what strategies with a model share: seeds, outcomes, what is in flight. Chooses nothing.

A strategy of this kind says what comes next; that a genome is proposed once, and what was told, is kept here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property

from evoflash.evaluation import Evaluation, Proposal
from evoflash.space import Genome, SearchSpace
from evoflash.strategies.gaussian_process import Features, Floats, Ints, by_rank, by_share
from evoflash.strategies.prior import Earlier, Prior, Trend, trend_of
from evoflash.strategies.unseen import Unseen


class ModelStrategy(ABC):
    """Asks its subclass for the next proposal, and remembers outcomes for the model."""

    def __init__(
        self,
        space: SearchSpace,
        *,
        seed: int,
        seeds: tuple[Genome, ...],
        first: int,
        earlier: tuple[Earlier, ...],
    ) -> None:
        """`first`: so many seeds come before the model's choice; `earlier`: searches for other problems."""
        self._space, self._seed, self._first = space, seed, first
        self._seeds = tuple(genome for genome in seeds if genome in space)
        self._unseen = Unseen(space, seed=seed)
        self._features = Features(space)
        # Kernels that fill a GPU alike take nearly equal times: plateaus, of which ranks make slopes.
        # On recorded spaces of other kernels ranks did better (measured on 2026-11-23).
        self._scale = by_share if space.proportions else by_rank
        self._earlier = tuple(each for each in earlier if each.outcomes)
        self._told: list[Evaluation] = []
        self._in_flight: dict[Genome, None] = {}  # in the order of asking
        self._picks: Iterator[Proposal] = iter(())

    @cached_property
    def _prior(self) -> Prior | None:
        """What earlier searches say; it takes up to a second, and a family may never need it."""
        sizes = self._space.proportions.sizes if self._space.proportions else ()
        return Prior(self._features, sizes, self._earlier) if self._earlier else None

    def _trend(self, told: Sequence[Evaluation], targets: Floats) -> Trend:
        """How far the targets of these outcomes follow what earlier searches say."""
        return trend_of(self._prior, [each.genome for each in told], targets)

    def _beside(self, trend: Trend, targets: Floats, some: Sequence[int] | Ints) -> Floats:
        """What the targets of some of the first outcomes are beside the trend."""
        rest: Floats = targets[some] - trend.of([self._told[at].genome for at in some])
        return rest

    @abstractmethod
    def _next(self) -> Proposal | None:
        """None when nothing new is left."""

    def ask(self) -> Proposal | None:
        """A genome that was not proposed; None when none is left."""
        proposal = self._next()
        if proposal is not None:
            self._unseen.take(proposal.genome)
            self._in_flight[proposal.genome] = None
        return proposal

    def tell(self, proposal: Proposal, evaluation: Evaluation) -> None:
        """Remember the outcome; the model is made when it is needed."""
        self._unseen.take(proposal.genome)
        self._in_flight.pop(proposal.genome, None)
        if proposal.genome in self._space:
            self._told.append(evaluation)

    def _next_seed(self) -> Proposal | None:
        # Before anything is known all seeds come first: many in flight would else be random genomes.
        return self._unseen.seed(self._seeds[: self._first] if self._told else self._seeds)

    def _sample(self) -> Proposal | None:
        return self._unseen.sample(self._unseen.rng())
