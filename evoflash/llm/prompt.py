"""Writes the request to a language model from what a search knows. Sends nothing.

The words stand in prompt.md.j2. A request never holds tolerances, seeds of inputs, paths, reasons of failures
or anything of the environment.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template

from evoflash.evaluation import Evaluation
from evoflash.space import Genome, SearchSpace, Value
from evoflash.strategies.gene_effects import effects, nogoods

# Which preset has what, as EvoEngineer's of the same names: (insights, solutions).
PRESETS = {"free": (False, False), "insight": (True, False), "solution": (False, True), "full": (True, True)}
PROPOSALS, MOST_EDITS = 4, 3  # asked for in a request; genes that one of them changes
_OTHERS, _EFFECTS, _FAILING = 4, 10, 6  # shown at most: small models read little
SOURCE_PROPOSALS = 2  # where a kernel's text is edited
_MOST_TOKENS, _MOST_SOURCE_TOKENS = 1000, 4000  # of an answer
_TEMPERATURE = 0.8


@dataclass(frozen=True, slots=True)
class KernelSource:
    """What is known of the texts of a family's kernels, which a model may edit."""

    text: Callable[[Genome], str]
    launches: Callable[[Genome], Sequence[Mapping[str, Any]]]  # how each of its kernels is launched
    # Of a child and the kernel that it edits: the kind of mistake and a few words; None where there is none.
    complaint: Callable[[Genome, Genome], tuple[str, str] | None]
    most_growth: int  # in characters


@dataclass(frozen=True, slots=True)
class KernelTask:
    """What is searched for, in one family."""

    problem: str
    gpu: Mapping[str, Any]
    floor_us: float | None  # None: not known
    summary: str  # of the family
    space: SearchSpace
    conditions: Mapping[str, str]  # by gene, as texts
    rules: Mapping[str, str]  # by the name of the check; empty where its text would tell nothing
    source: KernelSource | None = None  # None: genes are edited


@dataclass(frozen=True, slots=True)
class Letter:
    """A request and the ids of the kernels that it shows, in the order of their labels."""

    body: Mapping[str, Any]
    shown: tuple[str, ...]


def label(at: int) -> str:
    return f"K{at + 1}"


def letter(
    task: KernelTask,
    told: Sequence[Evaluation],
    *,
    model: str,
    preset: str,
    seed: int,
    is_plain: bool = False,
) -> Letter:
    """The request after these outcomes of the family, of which one at least is correct. Where a text is
    edited, it is that of the fastest alone.

    `is_plain`: with nothing but model and messages, for an endpoint that knows no more.
    """
    has_insights, has_solutions = PRESETS[preset]
    ranked = _by_time(told)
    shown = ranked[: 1 + _OTHERS] if has_solutions else ranked[:1]
    genomes = [each.genome for each in shown]
    source = task.source
    editable = genomes if source is None else genomes[:1]
    said: dict[str, Any] = {
        "count": PROPOSALS if source is None else SOURCE_PROPOSALS,
        "most_edits": MOST_EDITS,
        "task": {
            "problem": task.problem,
            "gpu": dict(task.gpu),
            **({"physical floor in us": round(task.floor_us, 2)} if task.floor_us else {}),
            "kernel family": {"name": task.space.family, "summary": task.summary},
        },
        "genes": dict(_domains(task.space)),
        "conditions": dict(task.conditions),
        "rules": dict(task.rules),
        "best": {"kernel": label(0), **_outcome(shown[0]), "genes": genomes[0].as_dict()},
        "others": [
            {"kernel": label(at), **_outcome(each), "changes": _changes(genomes[0], each.genome)}
            for at, each in enumerate(shown[1:], start=1)
        ],
        "effects": _effects(told) if has_insights else [],
        "failing": [dict(each.values) for each in nogoods(told)[:_FAILING]] if has_insights else [],
    }
    if source is not None:
        said |= {"text": source.text(genomes[0]), "launches": source.launches(genomes[0])}
        said |= {"most_growth": source.most_growth}
    template, kind = _template(), "genes" if source is None else "source"
    context = template.new_context(said)
    texts = {
        role: "".join(part for name in names for part in template.blocks[name](context))
        for role, names in {
            "system": (f"{kind}_system",),
            "user": ("task", kind, "kernels", "learnt"),
        }.items()
    }
    messages = [{"role": role, "content": text} for role, text in texts.items()]
    body: dict[str, Any] = {"model": model, "messages": messages}
    if not is_plain:
        wanted = source_schema() if source else answer_schema(task.space, len(shown))
        schema = {"name": "proposals", "strict": True, "schema": wanted}
        body |= {"response_format": {"type": "json_schema", "json_schema": schema}}
        tokens = _MOST_SOURCE_TOKENS if source else _MOST_TOKENS
        body |= {"max_tokens": tokens, "temperature": _TEMPERATURE, "seed": seed}
    return Letter(body, tuple(genome.id for genome in editable))


@cache
def _template() -> Template:
    words = Environment(undefined=StrictUndefined)
    words.filters["json"] = json.dumps  # Jinja's own sorts keys, and writes quotes as numbers
    return words.from_string(Path(__file__).with_name("prompt.md.j2").read_text(encoding="utf-8"))


def _by_time(told: Sequence[Evaluation]) -> list[Evaluation]:
    """Correct ones, the fastest first."""
    timed = [each for each in told if each.is_correct and each.score_us and not each.duplicate_of]
    return sorted(timed, key=lambda each: each.score_us or 0.0)


def _domains(space: SearchSpace) -> list[tuple[str, tuple[Value, ...]]]:
    return [(param.name, param.values) for param in space.params if len(param.values) > 1]


def _outcome(evaluation: Evaluation) -> dict[str, Any]:
    registers = max((build.registers for build in evaluation.builds), default=0)
    spilled = max((build.spill_bytes for build in evaluation.builds), default=0)
    known = {"bound by": evaluation.bound, "registers": registers, "spilled bytes": spilled}
    return {
        "us": round(evaluation.score_us or 0.0, 3),
        **{name: what for name, what in known.items() if what},
    }


def _changes(best: Genome, other: Genome) -> dict[str, Value]:
    own = best.as_dict()
    edits = {"edits of its text": len(other.edits)} if other.edits else {}
    return {name: value for name, value in other.values if name not in own or own[name] != value} | edits


def _effects(told: Sequence[Evaluation]) -> list[dict[str, Any]]:
    """The surest ones on both sides: their intervals leave 1 out."""
    sure = [each for each in effects(told) if each.high < 1 or each.low > 1]
    sure.sort(key=lambda each: min(each.high, 1 / each.low if each.low else 1.0))
    return [
        {"gene": each.gene, "value": each.value, "ratio": round(each.ratio, 3), "kernels": each.n}
        for each in sure[:_EFFECTS]
    ]


def answer_schema(space: SearchSpace, kernels: int) -> dict[str, Any]:
    """What an answer must look like, as JSON Schema: only genes and values of the space fit."""
    edits = [
        _object(gene={"type": "string", "enum": [name]}, value={"enum": list(values)})
        for name, values in _domains(space)
    ]
    proposal = _object(
        kernel={"type": "string", "enum": [label(at) for at in range(kernels)]},
        edits={"type": "array", "minItems": 1, "maxItems": MOST_EDITS, "items": {"anyOf": edits}},
    )
    return _answer(proposal, PROPOSALS)


def source_schema() -> dict[str, Any]:
    """The same where the text of the fastest kernel is edited."""
    edit = _object(search={"type": "string", "minLength": 1}, replace={"type": "string"})
    proposal = _object(
        kernel={"type": "string", "enum": [label(0)]},
        edits={"type": "array", "minItems": 1, "maxItems": MOST_EDITS, "items": edit},
    )
    return _answer(proposal, SOURCE_PROPOSALS)


def _answer(proposal: Mapping[str, Any], count: int) -> dict[str, Any]:
    return _object(proposals={"type": "array", "minItems": count, "maxItems": count, "items": proposal})


def _object(**properties: Any) -> dict[str, Any]:
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
