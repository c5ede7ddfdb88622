"""Which genome `evoflash evaluate` was given: values of a family, an id, or a file. Evaluates nothing."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evoflash.commands import kernel_report as report
from evoflash.errors import UsageError
from evoflash.families.export import export_kernel, genome_of, setting
from evoflash.families.family import load_family
from evoflash.space import Value
from evoflash.store.store import open_store

_EXPORTED = re.compile(r"^// evoflash export (.*)$", re.MULTILINE)
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
    """The genome of an id (or its first digits) or of a file; `problem` and `gpu` override what it is for."""
    path = Path(what)
    if path.suffix == ".cu" or path.suffix == ".json" or path.is_file():
        return _of_file(path, problem, gpu)
    with open_store(db, read_only=True) as store:
        known = report.find(store, what)[0]
    genome = known.genome
    return Subject(genome.family, genome.as_dict(), problem or known.problem, gpu or known.gpu)


def _of_file(path: Path, problem: str | None, gpu: str | None) -> Subject:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"{path} cannot be read: give a JSON file, an exported .cu or an id.") from None
    command = _EXPORTED.search(text)
    found = _of_export(path, text, command[1]) if command else _of_json(path, text)
    return Subject(found.family, found.values, problem or found.problem or _DEFAULT_PROBLEM, gpu or found.gpu)


def _of_export(path: Path, text: str, command: str) -> Subject:
    """The genome that the file's banner names, where the file still is that genome's kernel."""
    words = shlex.split(command)
    options = list(zip(words[::2], words[1::2], strict=False))
    single = dict(options)
    if not {"--family", "--problem", "--gpu"} <= single.keys():
        raise UsageError(f"{path}: the command in its banner is not whole: export it again.")
    values = [word for option, word in options if option == "--set"]
    genome, what, spec = genome_of(
        single["--family"], values, problem=single["--problem"], gpu=single["--gpu"]
    )
    if text != export_kernel(genome, what, spec):
        raise UsageError(
            f"{path} is not what its banner exports: it was edited, or exported by another version. "
            "An evaluation is of a genome, not of a text: `evoflash check` looks into an edited kernel."
        )
    return Subject(genome.family, genome.as_dict(), str(what), spec.name)


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
