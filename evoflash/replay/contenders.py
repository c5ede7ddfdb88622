"""Runs a contender by its name: our strategies, Optuna's samplers, Kernel Tuner's strategies.

`evolution` is one of ours, `optuna:tpe` a sampler in Optuna's own loop, `kt:pso` a strategy of Kernel Tuner
in its simulation mode. The two packages are loaded when one of theirs runs, and use nothing of ours but the
recorded space. Measures nothing.
"""

import contextlib
import io
import json
import math
import random
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import optuna

from evoflash.errors import UsageError
from evoflash.replay import comparison
from evoflash.replay.recorded_space import Recording
from evoflash.space import Genome, Param, Value
from evoflash.strategies import STRATEGIES, check_strategy, known_strategies

OPTUNA = ("optuna:random", "optuna:tpe", "optuna:nsga2")
# Left out: brute_force, what needs a package of its own (skopt, pyatf), and optimisers of many objectives.
KERNEL_TUNER = tuple(
    f"kt:{name}"
    for name in (
        "random_sample",
        "genetic_algorithm",
        "diff_evo",
        "pso",
        "firefly_algorithm",
        "simulated_annealing",
        "dual_annealing",
        "greedy_ils",
        "mls",
        "hybrid_vndx",
        "adaptive_tabu_greywolf",
        "bayes_opt",
        "basinhopping",
        "minimize",
        "greedy_mls",
        "ordered_greedy_mls",
    )
)
# The best of the published comparisons and the classics; the others are run where they are named.
_OFTEN = ("genetic_algorithm", "diff_evo", "pso", "firefly_algorithm", "simulated_annealing", "hybrid_vndx")
GROUPS: Mapping[str, tuple[str, ...]] = {
    "all": tuple(STRATEGIES),
    "optuna": OPTUNA,
    "kernel-tuner": tuple(f"kt:{name}" for name in (*_OFTEN, "adaptive_tabu_greywolf")),
}
_PACKAGES = {"optuna": "optuna", "kt": "kernel_tuner"}

Found = Sequence[float]  # what each evaluation came to in us, infinite where it failed


def contenders(names: str) -> tuple[str, ...]:
    """Names and groups with commas between -> contenders, each once. UsageError for an unknown one."""
    found: list[str] = []
    for name in (word.strip() for word in names.split(",")):
        if name in GROUPS:
            found.extend(GROUPS[name])
        elif name in (*OPTUNA, *KERNEL_TUNER):
            found.append(name)
        elif name.partition(":")[0] in known_strategies():
            check_strategy(name)  # evolution:full has a preset behind its name
            found.append(name)
        else:
            known = ", ".join((*GROUPS, *known_strategies(), *OPTUNA, "kt:NAME"))
            raise UsageError(f"no strategy is called '{name}': use some of {known}.")
    return tuple(dict.fromkeys(found))


def is_rival(contender: str) -> bool:
    """Whether it is of another package."""
    return contender.partition(":")[0] in _PACKAGES


def missing_package(contender: str) -> str:
    """The package that a contender needs and that is not installed; empty where it can run."""
    package = _PACKAGES.get(contender.partition(":")[0], "")
    return package if package and find_spec(package) is None else ""


def run_contender(recording: Recording, contender: str, budget: int, seed: int) -> Found:
    """What each evaluation of one run came to: distinct configurations of the record, at most `budget`."""
    return _runner(contender)(recording, contender.rpartition(":")[2], budget, seed)


def _runner(contender: str) -> Callable[[Recording, str, int, int], Found]:
    if contender.startswith("optuna:"):
        from evoflash.replay.contenders import run_sampler

        return run_sampler
    if contender.startswith("kt:"):
        from evoflash.replay.contenders import run_strategy

        return run_strategy
    return lambda recording, name, budget, seed: list(comparison.replay_times(recording, name, budget, seed))


_KERNEL = "recorded"
_Key = tuple[Value, ...]


def run_strategy(recording: Recording, name: str, budget: int, seed: int) -> Sequence[float]:
    """The time in us of each distinct recorded configuration that a strategy found, infinite for failures."""
    params = [param for param in recording.space.params if len(param.values) > 1]
    times_us = _times(recording, params)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cache.json"
        path.write_text(json.dumps(_cache(recording, params, times_us)), encoding="utf-8")
        results = _tune(params, set(times_us), path, strategy=name, budget=budget, seed=seed)
    found: dict[_Key, float] = {}
    for result in results:
        key = tuple(result[param.name] for param in params)
        if key in times_us:
            found.setdefault(key, times_us[key])
    return list(found.values())[:budget]


def _times(recording: Recording, params: Sequence[Param]) -> Mapping[_Key, float]:
    found = {}
    for genome, outcome in recording.space.outcomes.items():
        values = genome.as_dict()
        key = tuple(values.get(param.name, param.values[0]) for param in params)
        is_timed = outcome.score_us is not None and not outcome.is_lower_bound
        found[key] = outcome.score_us if is_timed and outcome.score_us is not None else math.inf
    return found


def _cache(recording: Recording, params: Sequence[Param], times_us: Mapping[_Key, float]) -> dict[str, Any]:
    names = [param.name for param in params]
    spent = {"compile_time": 0, "verification_time": 0, "benchmark_time": 0}
    spent |= {"strategy_time": 0, "framework_time": 0}
    entries = {}
    for key, us in times_us.items():
        time: dict[str, Any] = {"time": us / 1e3, "times": [us / 1e3]}
        if not math.isfinite(us):
            time = {"time": "RuntimeFailedConfig", "__error__": "RuntimeFailedConfig"}
        entries[",".join(map(str, key))] = dict(zip(names, key, strict=True)) | time | spent
    return {
        "device_name": recording.device,
        "kernel_name": _KERNEL,
        "problem_size": [1],
        "tune_params_keys": names,
        "tune_params": {param.name: list(param.values) for param in params},
        "objective": "time",
        "cache": entries,
    }


def _tune(
    params: Sequence[Param], valid: set[_Key], path: Path, *, strategy: str, budget: int, seed: int
) -> Sequence[Mapping[str, Any]]:
    import kernel_tuner
    from constraint import FunctionConstraint

    random.seed(seed)
    np.random.seed(seed)  # what its strategies draw from
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        results, _ = kernel_tuner.tune_kernel(
            _KERNEL,
            "",
            [1],
            [],
            {param.name: list(param.values) for param in params},
            restrictions=[FunctionConstraint(lambda *values: tuple(values) in valid)],
            block_size_names=["-", "-", "-"],
            simulation_mode=True,
            cache=str(path),
            strategy=strategy,
            strategy_options={"max_fevals": budget},
            quiet=True,
            lang="CUDA",
            objective="time",
        )
    return list(results)


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
        for param in _varying_params(recording)
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
    return tuple(str(values.get(param.name, param.values[0])) for param in _varying_params(recording))


def _varying_params(recording: Recording) -> list[Param]:
    return [param for param in recording.space.params if len(param.values) > 1]


def time_us(recording: Recording, genome: Genome) -> float:
    """The recorded time; infinite where it failed or is a lower bound."""
    outcome = recording.space.outcomes[genome]
    return math.inf if outcome.score_us is None or outcome.is_lower_bound else outcome.score_us
