"""Who is compared on recorded spaces: our strategies, Optuna's samplers, Kernel Tuner's strategies. By name.

`evolution` is one of ours, `optuna:tpe` a sampler in Optuna's own loop, `kt:pso` a strategy of Kernel Tuner
in its simulation mode. The two packages are loaded when one of theirs runs; measures nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec

from evoflash.errors import UsageError
from evoflash.replay import comparison
from evoflash.replay.recorded_space import Recording
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


def run(recording: Recording, contender: str, budget: int, seed: int) -> Found:
    """What each evaluation of one run came to: distinct configurations of the record, at most `budget`."""
    return _runner(contender)(recording, contender.rpartition(":")[2], budget, seed)


def _runner(contender: str) -> Callable[[Recording, str, int, int], Found]:
    if contender.startswith("optuna:"):
        from evoflash.replay.optuna_samplers import run_sampler

        return run_sampler
    if contender.startswith("kt:"):
        from evoflash.replay.kernel_tuner_strategies import run_strategy

        return run_strategy
    return lambda recording, name, budget, seed: list(comparison.found_us(recording, name, budget, seed))
