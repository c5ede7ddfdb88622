"""Optuna's NSGA-II over one family's genomes, for time alone. Evaluates and stores nothing.

One objective: a run is ranked by time, so a front of time against registers would spend most of the budget on
kernels that nobody asked for; and recorded spaces hold no registers. What is left is a plain elitist genetic
algorithm: a yardstick for evolution, with neither its operators nor its seeds.
"""

import math

from optuna.samplers import BaseSampler, NSGAIISampler
from optuna.trial import Trial, TrialState

from evoflash.space import Genome
from evoflash.strategies.optuna_study import OptunaStrategy

# Twenty generations in a budget of 200. On two recorded spaces (20 repeats each) populations of 8, 10, 14, 20
# and 30 scored 0.41, 0.33, 0.27, 0.09, -0.12 and 0.55, 0.54, 0.33, 0.27, 0.24.
POPULATION = 10


class Nsga2(OptunaStrategy):
    """What is broken is told as complete and infeasible: NSGA-II looks at complete trials alone."""

    name = "nsga2"

    def _sampler(self, seed: int) -> BaseSampler:
        return NSGAIISampler(seed=seed, population_size=POPULATION)

    def _failure(self) -> tuple[TrialState, float | None]:
        return TrialState.COMPLETE, math.inf

    def _ready(self, seed: int) -> None:
        # Optuna's first draw in a generation sees the parents in another order than the later ones. A draw
        # that is thrown away makes every draw a later one, also the first after an interruption.
        super()._ready(0)
        self._drop(self._study.ask(self._distributions))
        super()._ready(seed)

    def _enter(self, genome: Genome) -> Trial:
        trial = super()._enter(genome)
        super()._ready(0)
        sampler = self._study.sampler
        assert isinstance(sampler, NSGAIISampler)
        # Counts it among the current generation: only those that the sampler draws are so by themselves.
        sampler.get_trial_generation(self._study, self._study.get_trials(deepcopy=False)[trial.number])
        return trial
