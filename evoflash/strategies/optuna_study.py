"""What the Optuna strategies share: a study in memory, asked and told.

The store is the truth: the study is rebuilt from what is told, and its sampler is made anew for each proposal
from the seed and the number of proposals before, so that a resumed search goes on as an unbroken one does.
Optuna sees one fixed space. A param that is inactive has the choice INACTIVE there; what Optuna says about a
param that its own choices make inactive is dropped. Every param is categorical, numbers too: as numbers TPE
scored -0.24 and +0.41 on two recorded spaces at a budget of 200, as categories +0.25 and +0.65.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import Trial, TrialState

from evoflash.evaluation import Evaluation, Proposal
from evoflash.space import Genome, SearchSpace, Value
from evoflash.strategies.unseen import Unseen

INITIAL = 20  # uniform proposals before the sampler is asked
DRAWS = 8  # draws that lead nowhere new until a uniform genome is taken instead
INACTIVE = "-"  # Optuna's choice for a param that means nothing beside the others


class _Choices(CategoricalDistribution):
    """The choices of a param, one object for all trials: a sampler compares those of every trial with one
    another, and copies them, at each proposal.
    """

    def __eq__(self, other: object) -> bool:
        return self is other or super().__eq__(other)

    __hash__ = CategoricalDistribution.__hash__

    def __deepcopy__(self, memo: object) -> _Choices:
        return self


class OptunaStrategy(ABC):
    """Proposals of an Optuna sampler; those that fail a named check, or are not new, never become trials.

    Each is repaired to a valid genome one step away that is new, or drawn again.
    """

    name: str  # what its proposals are called

    def __init__(self, space: SearchSpace, *, seed: int, seeds: tuple[Genome, ...] = ()) -> None:
        self._space = space
        self._seeds = tuple(genome for genome in seeds if genome in space)
        self._unseen = Unseen(space, seed=seed)
        self._trials: dict[Genome, Trial] = {}  # in flight
        self._choices = {
            p.name: (*p.values, INACTIVE) if p.name in space.when else p.values for p in space.params
        }

    @abstractmethod
    def _sampler(self, seed: int) -> BaseSampler:
        """The sampler of the next proposal."""

    @abstractmethod
    def _failure(self) -> tuple[TrialState, float | None]:
        """The state and value from which this sampler learns that a genome is broken."""

    def ask(self) -> Proposal | None:
        """A seed, a uniform genome at first, then the sampler's; None when nothing new is left."""
        rng = self._unseen.rng()
        proposal = self._unseen.seed(self._seeds) or self._sample(rng) or self._unseen.sample(rng)
        if proposal is not None:
            self._unseen.take(proposal.genome)
            if proposal.genome not in self._trials:
                self._trials[proposal.genome] = self._enter(proposal.genome)
        return proposal

    def tell(self, proposal: Proposal, evaluation: Evaluation) -> None:
        """Finish the genome's trial; one that was never asked for becomes a trial first."""
        genome = proposal.genome
        self._unseen.take(genome)
        trial = self._trials.pop(genome, None)
        if trial is None and genome in self._space:
            trial = self._enter(genome)
        if trial is None:
            return
        if evaluation.is_rankable and evaluation.score_us is not None:
            self._study.tell(trial, evaluation.score_us)
            return
        # The further up the ladder a genome came, the less it violates.
        trial.set_constraint(evaluation.status.value, evaluation.rung.levels_missing)
        state, value = self._failure()
        self._study.tell(trial, value, state=state)

    @cached_property
    def _study(self) -> Study:
        # Optuna announces every study on stderr; a program that uses both keeps its own verbosity.
        level = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        try:
            return optuna.create_study(direction="minimize")
        finally:
            optuna.logging.set_verbosity(level)

    def _sample(self, rng: np.random.Generator) -> Proposal | None:
        if self._unseen.proposal_count < INITIAL:
            return None
        self._ready(int(rng.integers(2**32)))
        for _ in range(DRAWS):
            trial = self._study.ask(self._distributions)
            genome = self._new(self._genome(trial, rng), rng)
            if genome is not None and self._params(genome) == trial.params:
                self._trials[genome] = trial
                return Proposal(genome, self.name)
            self._drop(trial)
            if genome is not None:
                return Proposal(genome, self.name)
        return None

    def _new(self, genome: Genome, rng: np.random.Generator) -> Genome | None:
        """The genome itself if it is valid and was never proposed, else such a neighbour."""
        if genome in self._unseen and self._space.is_valid(genome):
            return genome
        near = [other for other in self._space.neighbours(genome) if other in self._unseen]
        return near[int(rng.integers(len(near)))] if near else None

    def _enter(self, genome: Genome) -> Trial:
        self._study.enqueue_trial(self._params(genome))
        return self._study.ask(self._distributions)

    def _ready(self, seed: int) -> None:
        """Give the study a sampler of this seed."""
        self._study.sampler = self._sampler(seed)

    def _drop(self, trial: Trial) -> None:
        self._study.tell(trial, state=TrialState.FAIL)  # neither sampler looks at failed trials

    @cached_property
    def _distributions(self) -> dict[str, BaseDistribution]:
        return {name: _Choices(choices) for name, choices in self._choices.items()}

    def _params(self, genome: Genome) -> dict[str, Value]:
        values = genome.as_dict()
        return {name: values.get(name, INACTIVE) for name in self._choices}

    def _genome(self, trial: Trial, rng: np.random.Generator) -> Genome:
        # Beside the other choices the param may be active after all: any of its values will do then.
        drawn = {
            name: self._any_value(name, rng) if value == INACTIVE else value
            for name, value in trial.params.items()
        }
        return self._space.genome(drawn)

    def _any_value(self, name: str, rng: np.random.Generator) -> Value:
        values = self._space.param(name).values
        return values[int(rng.integers(len(values)))]
