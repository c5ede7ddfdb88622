"""Search strategies, which propose genomes and learn from what became of them.

They evaluate and store nothing. A new one is a file here and a line in STRATEGIES, or a file in an extension
folder.

    evolution         Evolution makes children of the best genomes by mutation operators, and random genomes
                      among them
    exhaustive        Proposes every valid genome once, in the order of the space
    family_bandit     Runs one strategy for each kernel family and gives the budget to the family that pays
    gaussian_process  A Gaussian process on genomes, and which of many it would try next
    gene_effects      How much faster each value of a gene makes kernels, and which values always fail
    model_strategy    ModelStrategy has what strategies with a model share
    neighbourhood     Neighbourhood finds the valid genomes around one
    nsga2             Optuna's NSGA-II over one family's genomes, for time alone
    operators         Finds mutation operators, tries them on parents, repairs the children and keeps each
                      one's credit
    optuna_study      What the Optuna strategies share
    own_strategy      Loads and runs search strategies of the user's own
    populations       Keeps the good genomes of a search and says which of them may be parents
    prior             Prior says what searches for other problems tell of a genome here
    surrogate         Surrogate lets a Gaussian process learn from every outcome and choose among genomes near
                      the best
    tpe               Optuna's tree-structured Parzen estimator over one family's genomes
    uniform           Draws genomes uniformly, without replacement
    unseen            What a strategy has not proposed yet, and the random stream of each proposal
    whole_space       WholeSpace asks a Gaussian process about every genome of a space that names no tile
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evoflash.errors import UsageError, did_you_mean
from evoflash.extensions import with_extensions
from evoflash.paths import STRATEGIES as SHIPPED

if TYPE_CHECKING:
    from evoflash.search import Strategy
    from evoflash.space import Genome, SearchSpace
    from evoflash.strategies.prior import Earlier

LEARNS_EARLIER = ("surrogate",)  # from searches for other problems
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
    found = with_extensions("strategies", {name: SHIPPED / f"{name}.py" for name in STRATEGIES})
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

    `evolution:PRESET` and `evolution:PRESET:POPULATION` are evolution with a preset (evolution.py). `first`
    and `earlier` are for `surrogate`: how many seeds come before its own choice, and searches for other
    problems.
    """
    from evoflash.strategies.own_strategy import make_own

    check_strategy(name)
    if seed < 0:
        raise UsageError(f"seed {seed} is negative: give a whole number from 0 up.")
    chosen = strategy_parts(name)
    base = chosen.pop("strategy")
    if base not in STRATEGIES:
        return make_own(_own()[base], space, seed=seed, seeds=seeds)
    if base == "surrogate":
        chosen = {"earlier": earlier} | ({} if first is None else {"first": first})
        if not space.blocks:  # it names no tile
            from evoflash.strategies.whole_space import WholeSpace

            return WholeSpace(space, seed=seed, seeds=seeds, **chosen)
    shipped = getattr(import_module(f"evoflash.strategies.{base}"), STRATEGIES[base])
    made: Strategy = shipped(space, seed=seed, seeds=seeds, **chosen)
    return made


def strategy_parts(name: str) -> dict[str, Any]:
    """`evolution:full` -> its own name as `strategy`, and a `preset` and a `population` where it has them."""
    return dict(zip(("strategy", "preset", "population"), name.split(":"), strict=False))


def check_strategy(name: str) -> None:
    """UsageError where no strategy has that name."""
    base, *more = name.split(":")
    if base not in known_strategies():
        hint = did_you_mean(base, known_strategies())
        raise UsageError(f"no strategy is called '{base}'.{hint} Use {' or '.join(known_strategies())}.")
    if more and (base != "evolution" or len(more) > 2):
        raise UsageError(f"'{name}': only evolution has presets and populations, as evolution:full.")
    if more:
        from evoflash.strategies.evolution import preset_of

        preset_of(*more)


def takes_seeds(name: str) -> bool:
    """Whether a strategy of that name begins with seeds."""
    base = name.partition(":")[0]
    return base in WITH_SEEDS or base not in STRATEGIES
