"""Judges a language model's answer: each edit of genes or of a text is valid, or counted by its mistake.

Repairs nothing: an answer that is nearly right is wrong. No text of an answer is obeyed or run here.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from evoflash.llm.prompt import KernelSource
from evoflash.model_exchange import VALID, JudgedEdit
from evoflash.space import Genome, SearchSpace, is_among

# The kinds of mistakes, beside VALID.
MALFORMED = "malformed"
KERNEL, GENE, VALUE, TWICE = "unknown kernel", "unknown gene", "unknown value", "gene named twice"
NO_EFFECT, CHECK, DUPLICATE, SURPLUS = "no effect", "breaks a check", "duplicate", "surplus"
MOST = 16  # edits of an answer that are looked at
_MOST_DETAIL = 80  # characters
EditOutcome = tuple[JudgedEdit, Genome | None]  # with the genome that a valid one makes


def edits_of(
    answer: str, judge: Callable[[Any], EditOutcome], is_known: Callable[[Genome], bool]
) -> list[EditOutcome]:
    """Each edit of the answer in order. `judge` is gene_edit or source_edit, with what these take besides.

    `is_known`: whether a genome was proposed before.
    """
    proposals = _proposals(answer)
    if proposals is None:
        return [(JudgedEdit("", {}, MALFORMED), None)]
    found: list[EditOutcome] = []
    children: set[Genome] = set()
    for proposal in proposals[:MOST]:
        edit, child = judge(proposal)
        if child is not None and (child in children or is_known(child)):
            edit, child = JudgedEdit(edit.parent, edit.genes, DUPLICATE, child.id), None
        if child is not None:
            children.add(child)
        found.append((edit, child))
    found += [(JudgedEdit("", {}, SURPLUS), None)] * (len(proposals) - MOST)
    return found


def _proposals(answer: str) -> list[Any] | None:
    """Those of the first JSON object in the text; None where there is none of the right form."""
    start = answer.find("{")
    try:
        found, _ = json.JSONDecoder().raw_decode(answer, start) if start >= 0 else (None, 0)
    except (ValueError, RecursionError):
        return None
    proposals = found.get("proposals") if isinstance(found, dict) else None
    return proposals if isinstance(proposals, list) and proposals else None


def gene_edit(proposal: Any, *, shown: Mapping[str, Genome], space: SearchSpace) -> EditOutcome:
    """An edit of genes; `shown` are the kernels of the request by label."""
    named = _named_values(proposal)
    if named is None:
        return JudgedEdit("", {}, MALFORMED), None
    genes = dict(named)
    parent = shown.get(proposal["kernel"])
    if parent is None:
        return JudgedEdit("", genes, KERNEL, proposal["kernel"][:_MOST_DETAIL]), None

    def wrong(verdict: str, detail: str = "") -> EditOutcome:
        return JudgedEdit(parent.id, genes, verdict, detail[:_MOST_DETAIL]), None

    if len(genes) < len(named):
        return wrong(TWICE)
    for name, value in genes.items():
        if name not in space.names:
            return wrong(GENE, name)
        if not is_among(value, space.param(name).values):
            return wrong(VALUE, f"{name}={json.dumps(value)}")
    child = space.genome({**parent.as_dict(), **genes})
    values = child.as_dict()
    if idle := [name for name, value in genes.items() if not is_among(values.get(name), (value,))]:
        return wrong(NO_EFFECT, f"{', '.join(idle)} plays no part there")
    if child == parent:
        return wrong(NO_EFFECT)
    if not space.is_valid(child):
        return wrong(CHECK, ", ".join(space.violations(child)))
    return JudgedEdit(parent.id, genes, VALID, child=child.id), child


def source_edit(proposal: Any, *, shown: Mapping[str, Genome], source: KernelSource) -> EditOutcome:
    """An edit of a kernel's text, as blocks of what stands there once and what is to stand there instead."""
    blocks = _blocks(proposal)
    if blocks is None:
        return JudgedEdit("", {}, MALFORMED), None
    parent = shown.get(proposal["kernel"])
    if parent is None:
        return JudgedEdit("", {}, KERNEL, proposal["kernel"][:_MOST_DETAIL]), None
    child = Genome(parent.family, parent.version, parent.values, (*parent.edits, *blocks))
    if complaint := source.complaint(child, parent):
        kind, detail = complaint
        return JudgedEdit(parent.id, {}, kind, detail[:_MOST_DETAIL]), None
    return JudgedEdit(parent.id, {}, VALID, child=child.id), child


def _blocks(proposal: Any) -> list[tuple[str, str]] | None:
    """Those of a proposal of the right form; else None."""
    edits = _edits(proposal)
    blocks = [(edit.get("search"), edit.get("replace")) for edit in edits or () if isinstance(edit, dict)]
    found = [(old, new) for old, new in blocks if isinstance(old, str) and isinstance(new, str)]
    return found if edits is not None and len(found) == len(edits) else None


def _named_values(proposal: Any) -> list[tuple[str, Any]] | None:
    """The genes of a proposal of the right form, with their values; else None."""
    edits = _edits(proposal)
    if edits is None:
        return None
    named = []
    for edit in edits:
        name, value = (edit.get("gene"), edit.get("value")) if isinstance(edit, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(value, str | int | bool):
            return None
        named.append((name, value))
    return named


def _edits(proposal: Any) -> list[Any] | None:
    """Those of a proposal that names a kernel; else None."""
    if not isinstance(proposal, dict) or not isinstance(proposal.get("kernel"), str):
        return None
    edits = proposal.get("edits")
    return edits if isinstance(edits, list) and 1 <= len(edits) <= MOST else None
