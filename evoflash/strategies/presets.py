"""Presets of evolution: what its proposals may know. Names and records only.

The information that the methods of EvoEngineer give a language model (arXiv:2510.03760), given to mutation
operators: `free` nothing; `insight` what was learnt, which is operators for kernels with the credit that they
earned, the effects of genes and values that always fail; `solution` other good genomes, to cross; `full` all.
With `-45` behind it a preset has the paper's 45 trials and its population of five.
"""

from dataclasses import dataclass

from evoflash.errors import UsageError
from evoflash.strategies.populations import POPULATIONS

TRIALS, OF_THE_PAPER = 45, 5  # evaluations; genomes in its population of elites
DEFAULT_SIZE = 8


@dataclass(frozen=True, slots=True)
class Preset:
    """Which information evolution uses, and how it keeps its parents."""

    uses_insights: bool
    uses_solutions: bool
    population: str
    size: int = DEFAULT_SIZE


_PRESETS = {
    "free": Preset(uses_insights=False, uses_solutions=False, population="single"),
    "insight": Preset(uses_insights=True, uses_solutions=False, population="single"),
    "solution": Preset(uses_insights=False, uses_solutions=True, population="elites"),
    "full": Preset(uses_insights=True, uses_solutions=True, population="elites"),
}
PRESETS = (*_PRESETS, *(f"{name}-{TRIALS}" for name in _PRESETS))


def preset_of(name: str, population: str = "") -> Preset:
    """The preset of that name, with another population if one is named. UsageError for unknown names."""
    base = name.removesuffix(f"-{TRIALS}")
    if name not in PRESETS:
        raise UsageError(f"no preset is called '{name}': use {' or '.join(PRESETS)}.")
    if population and population not in POPULATIONS:
        raise UsageError(f"no population is called '{population}': use {' or '.join(POPULATIONS)}.")
    found = _PRESETS[base]
    size = OF_THE_PAPER if name != base else found.size
    return Preset(found.uses_insights, found.uses_solutions, population or found.population, size)


def trials_of(name: str | None) -> int | None:
    """The budget that comes with a preset; None where it has none."""
    return TRIALS if name and name.endswith(f"-{TRIALS}") else None


def named_strategy(strategy: str, preset: str | None, population: str | None) -> str:
    """The strategy's name with its preset and population, as make_strategy takes it. UsageError where a
    strategy has none, or a population stands without a preset.
    """
    if preset is None and population is None:
        return strategy
    if strategy != "evolution":
        raise UsageError(f"--preset and --population are for --strategy evolution, not for {strategy}.")
    if preset is None:
        raise UsageError("--population goes with a preset: add --preset full, or another.")
    preset_of(preset, population or "")
    return ":".join(filter(None, (strategy, preset, population)))
