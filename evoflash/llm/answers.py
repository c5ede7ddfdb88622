"""Judges a language model's answer against a search space: each edit is valid, or counted by its mistake.

Repairs nothing: an answer that is nearly right is wrong. No text of an answer is run or obeyed.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from evoflash.exchange import VALID, GeneEdit
from evoflash.space import Genome, SearchSpace, is_among

# The kinds of mistakes, beside VALID.
MALFORMED = "malformed"
KERNEL, GENE, VALUE, TWICE = "unknown kernel", "unknown gene", "unknown value", "gene named twice"
NO_EFFECT, CHECK, DUPLICATE, SURPLUS = "no effect", "breaks a check", "duplicate", "surplus"
KINDS = (MALFORMED, KERNEL, GENE, VALUE, TWICE, NO_EFFECT, CHECK, DUPLICATE, SURPLUS)
MOST = 16  # edits of an answer that are looked at
_MOST_DETAIL = 80  # characters


def edits_of(
    answer: str, shown: Mapping[str, Genome], space: SearchSpace, is_known: Callable[[Genome], bool]
) -> list[tuple[GeneEdit, Genome | None]]:
    """Each edit of the answer in order, with the genome that a valid one makes.

    `shown` are the kernels of the request by label. `is_known`: whether a genome was proposed before.
    """
    proposals = _proposals(answer)
    if proposals is None:
        return [(GeneEdit("", {}, MALFORMED), None)]
    found: list[tuple[GeneEdit, Genome | None]] = []
    children: set[Genome] = set()
    for proposal in proposals[:MOST]:
        edit, child = _edit(proposal, shown, space)
        if child is not None and (child in children or is_known(child)):
            edit, child = GeneEdit(edit.parent, edit.genes, DUPLICATE, child.id), None
        if child is not None:
            children.add(child)
        found.append((edit, child))
    found += [(GeneEdit("", {}, SURPLUS), None)] * (len(proposals) - MOST)
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


def _edit(proposal: Any, shown: Mapping[str, Genome], space: SearchSpace) -> tuple[GeneEdit, Genome | None]:
    named = _named_values(proposal)
    if named is None:
        return GeneEdit("", {}, MALFORMED), None
    genes = dict(named)
    parent = shown.get(proposal["kernel"])
    if parent is None:
        return GeneEdit("", genes, KERNEL, proposal["kernel"][:_MOST_DETAIL]), None

    def wrong(verdict: str, detail: str = "") -> tuple[GeneEdit, None]:
        return GeneEdit(parent.id, genes, verdict, detail[:_MOST_DETAIL]), None

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
    return GeneEdit(parent.id, genes, VALID, child=child.id), child


def _named_values(proposal: Any) -> list[tuple[str, Any]] | None:
    """The genes of a proposal of the right form, with their values; else None."""
    if not isinstance(proposal, dict) or not isinstance(proposal.get("kernel"), str):
        return None
    edits = proposal.get("edits")
    if not isinstance(edits, list) or not 1 <= len(edits) <= MOST:
        return None
    named = []
    for edit in edits:
        name, value = (edit.get("gene"), edit.get("value")) if isinstance(edit, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(value, str | int | bool):
            return None
        named.append((name, value))
    return named
