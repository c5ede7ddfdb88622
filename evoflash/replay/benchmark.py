"""Runs strategies and rivals on recorded spaces, many seeds each, in parallel processes. Prints nothing.

`evolution` is a strategy of ours, `optuna:tpe` a sampler in Optuna's own loop, `kt:pso` a strategy of Kernel
Tuner in its simulation mode. The two packages use nothing of ours but the recorded space.

It returns curves, scores and paired tests. The score P is comparison.py's: 0 is what random search is
expected to find, 1 the optimum. A pair of contenders is compared over the same seeds. Each run is a pure
function of its seed.
"""

import contextlib
import io
import json
import math
import random
import tempfile
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from numpy.typing import NDArray

from evoflash.errors import UsageError
from evoflash.isolation import IsolatedPool
from evoflash.replay.comparison import (
    Quartiles,
    StrategyScore,
    best_so_far,
    draws_us,
    quartiles,
    random_expectation,
    replay_times,
    scores_of,
    standing,
)
from evoflash.replay.kernel_tuner import read_recording
from evoflash.replay.recorded_space import Recording, SpaceSummary
from evoflash.space import Genome, Param, Value
from evoflash.strategies import STRATEGIES, check_strategy, known_strategies

FLIPS = 20_000  # random signs of the differences, for the test of a pair
RUN_LIMIT_S = 1800.0  # of one seed
_SEEDS_OF_A_CALL = 5
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
_KERNEL = "recorded"
_Key = tuple[Value, ...]
_ASKS = 50  # for each evaluation, before a run ends early


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    """What one contender came to on one space, over its seeds."""

    standing: StrategyScore
    median: float  # of P
    below_random: float  # share of the seeds with P below 0
    cpu_ms: float  # for each evaluation: proposing, the loop and the look-up
    scores: tuple[float, ...]  # P of each seed
    quartiles: Quartiles  # of best over optimum after 1, 2, ... evaluations
    difference: float | None = None  # of mean P to the reference's; None for the reference itself
    p_value: float | None = None  # of that difference, by paired()

    @property
    def name(self) -> str:
        return self.standing.strategy


@dataclass(frozen=True, slots=True)
class Space(SpaceSummary):
    """A recorded space, and how each contender did there, best mean first."""

    file: str
    budget: int
    expected: tuple[float, ...]  # best over optimum that random search is expected to have
    rows: tuple[BenchmarkRow, ...]


@dataclass(frozen=True, slots=True)
class Runs:
    """What some seeds of a contender found, and the CPU seconds that it took."""

    found_us: tuple[tuple[float, ...], ...]
    cpu_s: float
    failed: str = ""  # why a rival of another package could not run


def run_seeds(path: Path, contender: str, budget: int, seeds: Sequence[int]) -> Runs:
    """In a process of its own: one run for each seed."""
    recording = _recording(path)
    started = time.process_time()
    try:
        found = tuple(tuple(run_contender(recording, contender, budget, seed)) for seed in seeds)
    except Exception as error:
        if not is_rival(contender):
            raise
        return Runs((), 0.0, failed=f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
    return Runs(found, time.process_time() - started)


@lru_cache(maxsize=4)
def _recording(path: Path) -> Recording:
    return read_recording(path)


def benchmark(
    paths: Sequence[Path],
    names: Sequence[str],
    *,
    budget: int,
    seeds: Sequence[int],
    reference: str,
    jobs: int,
    done: Callable[[str], None] = lambda _: None,
) -> Generator[Space, None, None]:
    """Every contender on every space with every seed, a space at a time; `done` hears of each that has ended.

    UsageError for a file that is no record, or that has nothing correct. `reference` is one of the names.
    """
    recordings = {path: read_recording(path) for path in paths}
    budgets = {path: min(budget, len(draws_us(recording))) for path, recording in recordings.items()}
    calls = [tuple(seeds[at : at + _SEEDS_OF_A_CALL]) for at in range(0, len(seeds), _SEEDS_OF_A_CALL)]
    with IsolatedPool(jobs) as pool:
        futures = {
            (path, name): [
                pool.submit(run_seeds, path, name, budgets[path], part, timeout_s=RUN_LIMIT_S * len(part))
                for part in calls
            ]
            for path in paths
            for name in names
        }
        for path, recording in recordings.items():
            rows = []
            for name in names:
                endings = [future.result() for future in futures[path, name]]
                runs = [ending.value or Runs((), 0.0, failed=ending.reason) for ending in endings]
                if failed := next((part.failed for part in runs if part.failed), ""):
                    done(f"{path.name}: {name} is left out: {failed}")
                else:
                    rows.append(_row(recording, name, budgets[path], runs))
                    done(f"{path.name}: {name}: mean P {rows[-1].standing.score:+.2f}")
            yield _space(path, recording, budgets[path], _with_differences(rows, reference))


def _row(recording: Recording, name: str, budget: int, runs: Sequence[Runs]) -> BenchmarkRow:
    times_us = recording.scores_us
    found = [each for part in runs for each in part.found_us]
    best_us = best_so_far(found, budget, worst_us=times_us[-1])
    expected_us = random_expectation(draws_us(recording), budget)
    scores = scores_of(best_us, expected_us, times_us[0])
    return BenchmarkRow(
        standing(name, best_us, expected_us, times_us[0]),
        float(np.median(scores)),
        float((scores < 0).mean()),
        1e3 * sum(part.cpu_s for part in runs) / max(1, sum(map(len, found))),
        tuple(map(float, scores)),
        quartiles(best_us, times_us[0]),
    )


def _with_differences(rows: Sequence[BenchmarkRow], reference: str) -> Iterator[BenchmarkRow]:
    """The rows, best mean first, each with its difference to the reference's."""
    beside = next((row for row in rows if row.name == reference), None)
    for row in sorted(rows, key=lambda row: -row.standing.score):
        if beside is None or row is beside:
            yield row
        else:
            difference, p_value = paired_test(row.scores, beside.scores)
            yield replace(row, difference=difference, p_value=p_value)


def paired_test(one: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """The mean difference of P over the same seeds, and how likely one so far from 0 is by chance.

    That is the share of random signs of the differences whose mean is as far from 0, on both sides.
    """
    differences = np.array(one) - np.array(other)
    signs = np.random.default_rng(0).choice((-1.0, 1.0), size=(FLIPS, len(differences)))
    extreme = np.abs((signs * differences).mean(axis=1)) >= abs(differences.mean()) - 1e-12
    return float(differences.mean()), float((1 + extreme.sum()) / (1 + FLIPS))


def _space(path: Path, recording: Recording, budget: int, rows: Iterator[BenchmarkRow]) -> Space:
    expected_us: NDArray[np.float64] = random_expectation(draws_us(recording), budget)
    summary = recording.summary
    return Space(
        **asdict(summary),
        file=path.name,
        budget=budget,
        expected=tuple(map(float, expected_us / summary.optimum_us)),
        rows=tuple(rows),
    )


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
    name = contender.rpartition(":")[2]
    if contender.startswith("optuna:"):
        return run_sampler(recording, name, budget, seed)
    if contender.startswith("kt:"):
        return run_strategy(recording, name, budget, seed)
    return list(replay_times(recording, name, budget, seed))


def run_strategy(recording: Recording, name: str, budget: int, seed: int) -> Sequence[float]:
    """The time in us of each distinct recorded configuration that a strategy found, infinite for failures."""
    params = _varying_params(recording)
    times_us = {_key(params, genome): outcome.time_us for genome, outcome in recording.space.outcomes.items()}
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


def run_sampler(recording: Recording, name: str, budget: int, seed: int) -> Sequence[float]:
    """The time in us of each distinct recorded configuration that a sampler found, infinite for failures."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    samplers = {
        "random": optuna.samplers.RandomSampler,
        "tpe": optuna.samplers.TPESampler,
        "nsga2": optuna.samplers.NSGAIISampler,
    }
    study = optuna.create_study(sampler=samplers[name](seed=seed))
    params = _varying_params(recording)
    keys = {tuple(map(str, _key(params, genome))): genome for genome in recording.space.genomes}
    genes: dict[str, optuna.distributions.BaseDistribution] = {
        param.name: optuna.distributions.CategoricalDistribution(list(map(str, param.values)))
        for param in params
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
        found.setdefault(genome, recording.space.outcomes[genome].time_us)
        study.tell(trial, found[genome] if math.isfinite(found[genome]) else 2 * slowest_us)
    return list(found.values())


def _key(params: Sequence[Param], genome: Genome) -> _Key:
    """The values of the params, in the space's order; an inactive gene's is its first."""
    values = genome.as_dict()
    return tuple(values.get(param.name, param.values[0]) for param in params)


def _varying_params(recording: Recording) -> list[Param]:
    return [param for param in recording.space.params if len(param.values) > 1]
