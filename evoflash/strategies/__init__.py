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

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evoflash.errors import UsageError, did_you_mean
from evoflash.extensions.folders import extended
from evoflash.paths import STRATEGIES as SHIPPED

if TYPE_CHECKING:
    from evoflash.search import Strategy
    from evoflash.space import Genome, SearchSpace
    from evoflash.strategies.model.earlier import Earlier

LEARNS_EARLIER = ("surrogate",)  # from searches on near problems
WITH_SEEDS = ("evolution", "surrogate", "tpe", "nsga2")  # besides the user's own; the others pass seeds over

# The class in the file of that name. Loaded when it is used: --help names the strategies and loads none.
STRATEGIES = {
    "evolution": "Evolution",
    "surrogate": "Surrogate",
    "tpe": "Tpe",
    "nsga2": "Nsga2",
    "exhaustive": "Exhaustive",
    "uniform": "Uniform",
}


def known_strategies() -> tuple[str, ...]:
    """The shipped strategies, then those of extension folders by name."""
    return (*STRATEGIES, *sorted(_own()))


def check_loads() -> None:
    """UsageError for a file of an extension folder that is no strategy."""
    from evoflash.strategies.own_strategy import load

    for path in _own().values():
        load(path)


def _own() -> dict[str, Path]:
    """The files of extension folders by name. UsageError where one has the name of a shipped strategy."""
    found = extended("strategies", {name: SHIPPED / f"{name}.py" for name in STRATEGIES})
    return {name: path for name, path in found.items() if path.parent != SHIPPED}


def make_strategy(
    name: str,
    space: SearchSpace,
    *,
    seed: int,
    seeds: tuple[Genome, ...] = (),
    first: int | None = None,
    earlier: tuple[Earlier, ...] = (),
) -> Strategy:
    """The strategy of that name on a space; `seeds` are genomes worth trying first. UsageError if unknown.

    `evolution:PRESET` and `evolution:PRESET:POPULATION` are evolution with a preset (presets.py). `first` and
    `earlier` are for `surrogate`: how many seeds come before its own choice, and searches on near problems.
    """
    from evoflash.strategies.own_strategy import make_own

    check_strategy(name)
    if seed < 0:
        raise UsageError(f"seed {seed} is negative: give a whole number from 0 up.")
    base, *more = name.split(":")
    if base not in STRATEGIES:
        return make_own(_own()[base], space, seed=seed, seeds=seeds)
    chosen: dict[str, Any] = dict(zip(("preset", "population"), more, strict=False))
    if base == "surrogate":
        chosen = {"earlier": earlier} | ({} if first is None else {"first": first})
    shipped = getattr(import_module(f"evoflash.strategies.{base}"), STRATEGIES[base])
    made: Strategy = shipped(space, seed=seed, seeds=seeds, **chosen)
    return made


def check_strategy(name: str) -> None:
    """UsageError where no strategy has that name."""
    base, *more = name.split(":")
    if base not in known_strategies():
        hint = did_you_mean(base, known_strategies())
        raise UsageError(f"no strategy is called '{base}'.{hint} Use {' or '.join(known_strategies())}.")
    if more and (base != "evolution" or len(more) > 2):
        raise UsageError(f"'{name}': only evolution has presets and populations, as evolution:full.")
    if more:
        from evoflash.strategies.presets import preset_of

        preset_of(*more)


def takes_seeds(name: str) -> bool:
    """Whether a strategy of that name begins with seeds."""
    base = name.partition(":")[0]
    return base in WITH_SEEDS or base not in STRATEGIES
