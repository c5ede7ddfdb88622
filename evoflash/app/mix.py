"""Reads a file of shapes, and what each of them counts, for portfolios and searches. Measures nothing.

Three forms: lines of `PROBLEM [weight=NUMBER] # remark`; TOML with [[shape]] tables and JSON with a list of
objects, both with `problem` and, if wanted, `weight`.
"""

import json
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evoflash.errors import UsageError
from evoflash.operation import Workload
from evoflash.problem import Problem, parse_problem

_OPERATION = "attention"  # whose sizes the exported dispatcher knows
_KNOWN = ("problem", "weight")
_LISTS = ("shape", "shapes")


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

    UsageError for a file that cannot be read, an entry that is no single attention shape, and a weight that
    is no positive number; it names the line.
    """
    weights: dict[Workload, float] = {}
    for entry in _read(path):
        workload = _workload(entry)
        weights[workload] = weights.get(workload, 0.0) + _weight(entry)
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


def _problem(entry: _Entry) -> Problem:
    try:
        return parse_problem(entry.problem)
    except UsageError as error:
        raise UsageError(f"{entry.where}: {error}") from None


def _workload(entry: _Entry) -> Workload:
    problem = _problem(entry)
    if len(problem.workloads) > 1:
        raise UsageError(f"{entry.where}: '{entry.problem}' are several shapes: give each its own entry.")
    if problem.operation != _OPERATION:
        raise UsageError(
            f"{entry.where}: a portfolio is for {_OPERATION}, '{entry.problem}' is {problem.operation}."
        )
    if getattr(problem.workloads[0], "accumulate", "fp32") != "fp32":
        raise UsageError(f"{entry.where}: acc=fp16 is no choice of a dispatcher: leave it out.")
    return dispatched_workload(problem.workloads[0])


def dispatched_workload(workload: Workload) -> Workload:
    """The workload as the dispatcher serves it: a single causal query sees all keys and needs no mask."""
    if workload.names()["seq_q"] == 1 and getattr(workload, "causal", False):
        return replace(workload, causal=False)  # type: ignore[type-var]  # every workload is a dataclass
    return workload


def _weight(entry: _Entry) -> float:
    if isinstance(entry.weight, str | int | float) and not isinstance(entry.weight, bool):
        try:
            weight = float(entry.weight)
        except (ValueError, OverflowError):
            weight = math.nan
        if math.isfinite(weight) and weight > 0:
            return weight
    raise UsageError(f"{entry.where}: weight '{entry.weight}' is no positive number: give one, such as 2.5.")
