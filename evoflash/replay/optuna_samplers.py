"""Optuna's samplers on a recorded space in Optuna's own loop, beside our strategies. Uses nothing of ours.

Every gene is categorical; one that is inactive stands at its first value. What Optuna asks for and the
record does not have is a failed trial that costs no evaluation; what it asks for again costs none either.
What failed when it was recorded costs one and is told as twice the slowest time. Its Gaussian processes need
PyTorch and CMA-ES has no categories: both are left out.
"""

import math
from collections.abc import Sequence

import optuna

from evoflash.replay.recorded_space import Recording
from evoflash.space import Genome, Param

_ASKS = 50  # for each evaluation, before a run ends early


def run_sampler(recording: Recording, name: str, budget: int, seed: int) -> Sequence[float]:
    """The time in us of each distinct recorded configuration that a sampler found, infinite for failures."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    samplers = {
        "random": optuna.samplers.RandomSampler,
        "tpe": optuna.samplers.TPESampler,
        "nsga2": optuna.samplers.NSGAIISampler,
    }
    study = optuna.create_study(sampler=samplers[name](seed=seed))
    keys = {key_of(recording, genome): genome for genome in recording.space.genomes}
    genes: dict[str, optuna.distributions.BaseDistribution] = {
        param.name: optuna.distributions.CategoricalDistribution(list(map(str, param.values)))
        for param in _varied(recording)
    }
    found: dict[Genome, float] = {}
    budget = min(budget, len(keys))
    slowest_us = recording.scores_us[-1]
    for _ in range(_ASKS * budget):
        if len(found) >= budget:
            break
        trial = study.ask(genes)
        genome = keys.get(tuple(str(trial.params[name]) for name in genes))
        if genome is None:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            continue
        found.setdefault(genome, time_us(recording, genome))
        study.tell(trial, found[genome] if math.isfinite(found[genome]) else 2 * slowest_us)
    return list(found.values())


def key_of(recording: Recording, genome: Genome) -> tuple[str, ...]:
    """The values of the genes that vary as words, in the space's order; an inactive gene's is its first."""
    values = genome.as_dict()
    return tuple(str(values.get(param.name, param.values[0])) for param in _varied(recording))


def _varied(recording: Recording) -> list[Param]:
    return [param for param in recording.space.params if len(param.values) > 1]


def time_us(recording: Recording, genome: Genome) -> float:
    """The recorded time; infinite where it failed or is a lower bound."""
    outcome = recording.space.outcomes[genome]
    return math.inf if outcome.score_us is None or outcome.is_lower_bound else outcome.score_us
