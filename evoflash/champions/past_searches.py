"""The outcomes of searches that ship with evoflash, for a new search to learn from. Learns nothing.

champions/<gpu>_searches.json.gz is written by scripts.searches.ship. A search is read when it is asked for:
all of them take half a second.
"""

import gzip
import json
import math
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from evoflash.champions import archives, distance
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
    # By family, of each outcome: what perf_model knows of such a genome on that problem before it is tried.
    proportions: Mapping[str, tuple[tuple[float, ...], ...]]


def near(problem: Problem, gpu: str, most: int) -> tuple[str, ...]:
    """The problems of at most so many past searches of the same operation, the nearest first; the same
    problem is the nearest. A search on the GPU, by its spec's name, may learn from them.
    """
    found = [(distance(problem, parse_problem(each)), each) for each in _entries(gpu)]
    ranked = sorted((pair for pair in found if pair[0] < math.inf), key=lambda pair: pair[0])
    return tuple(each for _, each in ranked[:most])


def past_search(gpu: str, problem: str) -> PastSearch | None:
    """Of a problem that was searched on two GPUs the first of `archives` counts."""
    if (found := _entries(gpu).get(problem)) is None:
        return None
    path, entry = found
    with _readable(path):
        return _search(entry)


def read_past_searches(path: Path) -> tuple[PastSearch, ...]:
    """The searches of one file. UsageError where it is not one."""
    with _readable(path):
        return tuple(map(_search, _entries_of(path)))


@cache
def _entries(gpu: str) -> Mapping[str, tuple[Path, dict[str, Any]]]:
    """By problem, unread; empty where none ship."""
    found: dict[str, tuple[Path, dict[str, Any]]] = {}
    for path in (CHAMPIONS / f"{name}_searches.json.gz" for name in archives(gpu)):
        with _readable(path):
            for entry in _entries_of(path) if path.exists() else ():
                found.setdefault(entry["problem"], (path, entry))
    return found


def _entries_of(path: Path) -> list[dict[str, Any]]:
    return list(json.loads(gzip.decompress(path.read_bytes()))["searches"])


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (LookupError, ValueError, TypeError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UsageError(f"{path} is no file of past searches ({error!r}): install evoflash anew.") from None


def _search(entry: dict[str, Any]) -> PastSearch:
    tables = entry["families"]
    return PastSearch(
        entry["problem"],
        entry["source"],
        {name: _outcomes(name, table) for name, table in tables.items()},
        {name: tuple(map(tuple, table["proportions"])) for name, table in tables.items()},
    )


def _outcomes(family: str, table: dict[str, Any]) -> Outcomes:
    """A row is a time and the genes' values in the table's order, null for an absent gene or a failure."""
    found = []
    for us, *values in table["outcomes"]:
        pairs = zip(table["genes"], values, strict=True)
        genes = tuple(sorted((name, value) for name, value in pairs if value is not None))
        found.append((Genome(family, table["version"], genes), math.inf if us is None else us))
    return tuple(found)
