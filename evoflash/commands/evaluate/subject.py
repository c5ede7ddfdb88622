"""Which genome `evoflash evaluate` was given: values of a family, an id, or a file. Evaluates nothing."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evoflash.commands.check.exported import genome_in, is_exported
from evoflash.commands.known_genome import known_genome
from evoflash.errors import UsageError
from evoflash.families.export import setting
from evoflash.families.family import load_family
from evoflash.gpu import GpuSpec
from evoflash.problem import Problem
from evoflash.space import Genome, Value

_DEFAULT_PROBLEM = "mission"


@dataclass(frozen=True, slots=True)
class Subject:
    """Values of a family's genes and where they are evaluated; `gpu` None: on the GPU that is present."""

    family: str
    values: Mapping[str, Value]
    problem: str
    gpu: str | None


def of_words(
    what: str | None,
    family: str | None,
    words: Sequence[str],
    *,
    problem: str | None,
    gpu: str | None,
    db: str,
) -> Subject:
    """What the command line names. UsageError for nothing, for two things, and for what cannot be read."""
    if (what is None) == (family is None):
        raise UsageError("name one genome: an id, a file, or --family with --set param=value.")
    if what is not None:
        if words:
            raise UsageError("--set belongs to --family: a genome that has an id or a file has its values.")
        return of_name(what, problem=problem, gpu=gpu, db=db)
    assert family is not None
    params = load_family(family).params
    values = dict(setting(params, word) for word in words)
    return Subject(family, values, problem or _DEFAULT_PROBLEM, gpu)


def of_name(what: str, *, problem: str | None, gpu: str | None, db: str) -> Subject:
    """The genome of an id or its first digits (of the database, else of the archive) or of a file.

    `problem` and `gpu` override what it is for.
    """
    path = Path(what)
    if path.suffix == ".cu" or path.suffix == ".json" or path.is_file():
        return _of_file(path, problem, gpu)
    return _of_genome(*known_genome(what, db, problem=problem, gpu=gpu))


def _of_genome(genome: Genome, problem: Problem, gpu: GpuSpec) -> Subject:
    return Subject(genome.family, genome.as_dict(), str(problem), gpu.name)


def _of_file(path: Path, problem: str | None, gpu: str | None) -> Subject:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"{path} cannot be read: give a JSON file, an exported .cu or an id.") from None
    found = _of_genome(*genome_in(path, text)) if is_exported(path, text) else _of_json(path, text)
    return Subject(found.family, found.values, problem or found.problem or _DEFAULT_PROBLEM, gpu or found.gpu)


def _of_json(path: Path, text: str) -> Subject:
    """`{"family": ..., "values": {...}}`, or what `show`, `best`, `evaluate` and `search` print as JSON."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"{path} is no JSON ({error.msg}, line {error.lineno}): {_WANTED}") from None
    data = data[0] if isinstance(data, list) and data else data
    data = data.get("best", data) if isinstance(data, dict) else None
    genome = data.get("genome", data) if isinstance(data, dict) else None
    if not (isinstance(genome, dict) and isinstance(data, dict) and _is_genome(genome)):
        raise UsageError(f"{path} names no genome: {_WANTED}")
    for name in ("problem", "gpu"):
        if not isinstance(data.get(name, ""), str):
            raise UsageError(f"{path}: '{name}' is no text: {_WANTED}")
    return Subject(genome["family"], genome["values"], data.get("problem", ""), data.get("gpu"))


_WANTED = (
    'write {"family": "flash_mma", "values": {"warps": 4}}, or take what `evoflash show ID --json` prints.'
)


def _is_genome(data: dict[str, Any]) -> bool:
    values = data.get("values")
    return isinstance(data.get("family"), str) and isinstance(values, dict)
