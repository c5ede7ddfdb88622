"""Reads a file of shapes, and what each of them counts, for portfolios and searches. Measures nothing.

For a portfolio `m=1..64` in a problem stands for as many shapes. Three forms: lines of
`PROBLEM [weight=NUMBER] # remark`; TOML with [[shape]] tables and JSON with a list of
objects, both with `problem` and, if wanted, `weight`.
"""

import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evoflash.errors import UsageError
from evoflash.operation import operation_of
from evoflash.problem import Problem, parse_problem
from evoflash.workload import Workload

_KNOWN = ("problem", "weight")
_LISTS = ("shape", "shapes")
_RANGE, _MOST_OF_RANGE = re.compile(r"=(\d{1,9})\.\.(\d{1,9})\b"), 256


@dataclass(frozen=True, slots=True)
class Shape:
    """One workload of the mix. `weight` is its share of the mix: all of them add up to 1."""

    workload: Workload
    weight: float


@dataclass(frozen=True, slots=True)
class WeightedProblem:
    """A problem of any kind, as a search takes it. `weight` is as the file has it, or the sum of several."""

    problem: Problem
    text: str  # as the file has it
    weight: float


@dataclass(frozen=True, slots=True)
class _Entry:
    where: str  # for errors: "mix.txt:3"
    problem: str
    weight: object = 1.0


def read_mix(path: Path) -> tuple[Shape, ...]:
    """The shapes of a file in its order; one that is named twice counts the sum of its weights.

    UsageError for a file that cannot be read, an entry that is no single shape, and a weight that
    is no positive number; it names the line.
    """
    weights: dict[Workload, float] = {}
    for entry in _read(path):
        for one in _each_of_ranges(entry):
            workload = _workload(one)
            weights[workload] = weights.get(workload, 0.0) + _weight(entry)
    if len(found := sorted({workload.operation for workload in weights})) > 1:
        raise UsageError(f"{path} has shapes of {' and '.join(found)}: a portfolio is of one operation.")
    total = sum(weights.values())
    if not math.isfinite(total):
        raise UsageError(f"{path}: the weights add up to more than a number can hold: make them smaller.")
    return tuple(Shape(workload, weight / total) for workload, weight in weights.items())


def read_problems(path: Path) -> tuple[WeightedProblem, ...]:
    """The problems of a file in its order, of any operation and of several workloads; one that is named twice
    counts the sum of its weights. UsageError as read_mix.
    """
    found: dict[Problem, WeightedProblem] = {}
    for entry in _read(path):
        problem, weight = _problem(entry), _weight(entry)
        before = found.get(problem, WeightedProblem(problem, entry.problem, 0.0))
        found[problem] = replace(before, weight=before.weight + weight)
    return tuple(found.values())


def _read(path: Path) -> list["_Entry"]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise UsageError(
            f"{path} cannot be read ({reason}): give a file with a problem in each line."
        ) from None
    entries = list(_entries(path, text))
    if not entries:
        raise UsageError(
            f"{path} names no shape: write one problem in each line, such as b=1,h=8,s=512,d=64."
        )
    return entries


def _entries(path: Path, text: str) -> Iterator[_Entry]:
    match path.suffix.lower():
        case ".toml":
            yield from _tables(path, _parse(path, text, tomllib.loads))
        case ".json":
            yield from _tables(path, _parse(path, text, json.loads))
        case _:
            yield from _lines(path, text)


def _parse(path: Path, text: str, parse: Any) -> Any:
    try:
        return parse(text)
    except (ValueError, RecursionError) as error:  # both decoders' errors are ValueErrors
        raise UsageError(f"{path} is not well formed ({error}): correct it.") from None


def _tables(path: Path, found: Any) -> Iterator[_Entry]:
    if isinstance(found, Mapping):
        found = next((found[name] for name in _LISTS if name in found), None)
    if not isinstance(found, Sequence) or isinstance(found, str):
        raise UsageError(f"{path} has no list of shapes: write [[shape]] tables (TOML) or a list (JSON).")
    for number, entry in enumerate(found, 1):
        where = f"{path}, shape {number}"
        if isinstance(entry, str):
            entry = {"problem": entry}
        if not isinstance(entry, Mapping) or not isinstance(entry.get("problem"), str):
            raise UsageError(f'{where}: it needs problem = "..."; weight is optional.')
        if unknown := [name for name in entry if name not in _KNOWN]:
            raise UsageError(f"{where}: '{unknown[0]}' is unknown: it may have problem and weight.")
        yield _Entry(where, entry["problem"], entry.get("weight", 1.0))


def _lines(path: Path, text: str) -> Iterator[_Entry]:
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        where = f"{path}:{number}"
        problem, *rest = words
        given = [word.removeprefix("weight=") for word in rest if word.startswith("weight=")]
        if len(rest) > 1 or len(given) != len(rest):
            raise UsageError(
                f"{where}: '{' '.join(rest)}' behind the problem: only weight=NUMBER may follow."
            )
        yield _Entry(where, problem, *given)


def _each_of_ranges(entry: _Entry) -> Iterator[_Entry]:
    """The entry; of `m=1..64` one for each number, with the weight of the entry."""
    found = _RANGE.search(entry.problem)
    if found is None:
        yield entry
        return
    first, last = int(found[1]), int(found[2])
    if not first <= last < first + _MOST_OF_RANGE:
        raise UsageError(
            f"{entry.where}: '{found[0][1:]}': give an ascending range of at most {_MOST_OF_RANGE} numbers."
        )
    for number in range(first, last + 1):
        text = f"{entry.problem[: found.start()]}={number}{entry.problem[found.end() :]}"
        yield from _each_of_ranges(replace(entry, problem=text))


def _problem(entry: _Entry) -> Problem:
    try:
        return parse_problem(entry.problem)
    except UsageError as error:
        raise UsageError(f"{entry.where}: {error}") from None


def _workload(entry: _Entry) -> Workload:
    problem = _problem(entry)
    if len(problem.workloads) > 1:
        raise UsageError(f"{entry.where}: '{entry.problem}' are several shapes: give each its own entry.")
    workload = problem.workloads[0]
    form = operation_of(workload).portfolio
    if form is None:
        raise UsageError(
            f"{entry.where}: '{entry.problem}' is {problem.operation}, of which no portfolio is made."
        )
    if why := form.why_not(workload):
        raise UsageError(f"{entry.where}: {why}.")
    served: Workload = form.served(workload)
    return served


def _weight(entry: _Entry) -> float:
    if isinstance(entry.weight, str | int | float) and not isinstance(entry.weight, bool):
        try:
            weight = float(entry.weight)
        except (ValueError, OverflowError):
            weight = math.nan
        if math.isfinite(weight) and weight > 0:
            return weight
    raise UsageError(f"{entry.where}: weight '{entry.weight}' is no positive number: give one, such as 2.5.")
