"""Search strategies by name. They propose genomes and learn from what became of them; they evaluate and store
nothing. A new one is a file here and a line in STRATEGIES, or a file in an extension folder.

    uniform          valid genomes at random, without replacement; the control
    evolution        children of elites, by mutation operators that earn their share
    surrogate        what a Gaussian process prefers near the best
    tpe              Optuna's tree-structured Parzen estimator
    nsga2            Optuna's NSGA-II, for time alone
    exhaustive       every valid genome, in the order of the space
    fixed_list       a given list, in order
    family_bandit    shares a search's budget out among kernel families
    model/           what `surrogate` is made of
    populations/     who may be a parent
    presets          what evolution's proposals may know
    insight          which child effects and nogoods favour
    operators        mutation operators, found and applied
    operator_credit  how well each mutation operator has done
    optuna_study     the one door to Optuna
    own_strategy     strategies of the user's own, from extension folders
    unseen           what was not proposed yet
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from evoflash.errors import UsageError, did_you_mean
from evoflash.space import Genome, SearchSpace
from evoflash.strategies.evolution import Evolution
from evoflash.strategies.exhaustive import Exhaustive
from evoflash.strategies.model.earlier import Earlier
from evoflash.strategies.nsga2 import Nsga2
from evoflash.strategies.own_strategy import load, make_own, own_strategies
from evoflash.strategies.presets import preset_of
from evoflash.strategies.surrogate import SEEDS, Surrogate
from evoflash.strategies.tpe import Tpe
from evoflash.strategies.uniform import Uniform

if TYPE_CHECKING:
    from evoflash.search import Strategy

LEARNS_EARLIER = ("surrogate",)  # from searches on near problems
WITH_SEEDS = ("evolution", "surrogate", "tpe", "nsga2")  # besides the user's own; the others pass seeds over

STRATEGIES: dict[str, Callable[..., Strategy]] = {
    "evolution": Evolution,
    "surrogate": Surrogate,
    "tpe": Tpe,
    "nsga2": Nsga2,
    "exhaustive": Exhaustive,
    "uniform": Uniform,
}


def known_strategies() -> tuple[str, ...]:
    """The shipped strategies, then those of extension folders by name."""
    return (*STRATEGIES, *sorted(_own()))


def check_loads() -> None:
    """UsageError for a file of an extension folder that is no strategy."""
    for path in _own().values():
        load(path)


def _own() -> dict[str, Path]:
    return own_strategies(STRATEGIES)


def make_strategy(
    name: str,
    space: SearchSpace,
    *,
    seed: int,
    seeds: tuple[Genome, ...] = (),
    first: int = SEEDS,
    earlier: tuple[Earlier, ...] = (),
) -> Strategy:
    """The strategy of that name on a space; `seeds` are genomes worth trying first. UsageError if unknown.

    `evolution:PRESET` and `evolution:PRESET:POPULATION` are evolution with a preset (presets.py). `first` and
    `earlier` are for `surrogate`: how many seeds come before its own choice, and searches on near problems.
    """
    check_strategy(name)
    if seed < 0:
        raise UsageError(f"seed {seed} is negative: give a whole number from 0 up.")
    base, *more = name.split(":")
    if base == "surrogate":
        return Surrogate(space, seed=seed, seeds=seeds, first=first, earlier=earlier)
    if base not in STRATEGIES:
        return make_own(_own()[base], space, seed=seed, seeds=seeds)
    chosen = dict(zip(("preset", "population"), more, strict=False))
    return STRATEGIES[base](space, seed=seed, seeds=seeds, **chosen)


def check_strategy(name: str) -> None:
    """UsageError where no strategy has that name."""
    base, *more = name.split(":")
    if base not in known_strategies():
        hint = did_you_mean(base, known_strategies())
        raise UsageError(f"no strategy is called '{base}'.{hint} Use {' or '.join(known_strategies())}.")
    if more and (base != "evolution" or len(more) > 2):
        raise UsageError(f"'{name}': only evolution has presets and populations, as evolution:full.")
    if more:
        preset_of(*more)


def takes_seeds(name: str) -> bool:
    """Whether a strategy of that name begins with seeds."""
    base = name.partition(":")[0]
    return base in WITH_SEEDS or base not in STRATEGIES
