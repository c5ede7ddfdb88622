"""Outcomes of searches on a GPU that ship with evoflash, <gpu>_searches.json: what a new one may learn from.

Written by scripts.searches.ship. Knows no strategy, and is no answer: its times are of other problems.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from evoflash.champions import NEAR, archives, distance
from evoflash.errors import UsageError
from evoflash.paths import CHAMPIONS
from evoflash.problem import Problem, parse_problem
from evoflash.space import Genome

Outcomes = tuple[tuple[Genome, float], ...]  # times in us, infinite for what failed


@dataclass(frozen=True, slots=True)
class PastSearch:
    """Some outcomes of all searches for one problem: half of them its best, the others evenly chosen."""

    problem: str  # canonical, str(Problem)
    source: str  # where they were measured, and when
    families: Mapping[str, Outcomes]


@cache
def past_searches(gpu: str) -> tuple[PastSearch, ...]:
    """Those from which a search on a GPU, by its spec's name, may learn; empty where none ship."""
    paths = (CHAMPIONS / f"{name}_searches.json" for name in archives(gpu))
    return tuple(each for path in paths if path.exists() for each in read_past_searches(path))


def read_past_searches(path: Path) -> tuple[PastSearch, ...]:
    """The searches of one file. UsageError where it is not one."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["searches"]
        return tuple(_search(entry) for entry in entries)
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is no file of past searches ({error!r}): install evoflash anew.") from None


def near(problem: Problem, gpu: str, most: int) -> tuple[PastSearch, ...]:
    """At most so many, of near problems, the nearest first; the same problem is the nearest."""
    found = [(distance(problem, parse_problem(each.problem)), each) for each in past_searches(gpu)]
    ranked = sorted((pair for pair in found if pair[0] <= NEAR), key=lambda pair: pair[0])
    return tuple(each for _, each in ranked[:most])


def _search(entry: dict[str, Any]) -> PastSearch:
    families = {name: _outcomes(name, table) for name, table in entry["families"].items()}
    return PastSearch(entry["problem"], entry["source"], families)


def _outcomes(family: str, table: dict[str, Any]) -> Outcomes:
    """A row is a time and the genes' values in the table's order, null for an absent gene or a failure."""
    found = []
    for us, *values in table["outcomes"]:
        pairs = zip(table["genes"], values, strict=True)
        genes = tuple(sorted((name, value) for name, value in pairs if value is not None))
        found.append((Genome(family, table["version"], genes), math.inf if us is None else us))
    return tuple(found)
