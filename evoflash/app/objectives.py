"""The objectives of a search and the Pareto front of rows that have figures for them. Reads no store.

A row is on the front unless another row is at least as good in every objective and better in one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from evoflash.errors import UsageError, did_you_mean

RowT = TypeVar("RowT", bound=Mapping[str, Any])


@dataclass(frozen=True, slots=True)
class Objective:
    """One thing to have less of."""

    name: str  # as --objective has it
    column: str  # of a row
    header: str  # of a table
    unit: str  # behind a figure


OBJECTIVES: Mapping[str, Objective] = {
    each.name: each
    for each in (
        Objective("latency", "score_us", "us", "us"),
        Objective("error", "rel_l2", "rel L2", "rel L2"),  # the worst of all checks
        Objective("registers", "registers", "regs", "registers"),  # a thread
        Objective("spills", "spill_bytes", "spills", "bytes spilled"),  # as ptxas counts them
        Objective("shared-memory", "smem_bytes", "smem B", "bytes of shared memory"),  # a block
        Objective("energy", "energy_mj", "mJ", "mJ"),  # a call, of the whole board
    )
}
LATENCY = (OBJECTIVES["latency"],)


def objectives_of(text: str | None) -> tuple[Objective, ...]:
    """`latency,registers` -> the objectives in that order; latency alone for None. UsageError otherwise."""
    if text is None:
        return LATENCY
    names = [word.strip() for word in text.split(",")]
    for name in names:
        if name not in OBJECTIVES:
            hint = did_you_mean(name, OBJECTIVES)
            raise UsageError(f"--objective: '{name}' is none.{hint} Use {', '.join(OBJECTIVES)}.")
    if len(set(names)) < len(names):
        raise UsageError(f"--objective {text}: name each objective once.")
    return tuple(OBJECTIVES[name] for name in names)


def pareto_front(rows: Sequence[RowT], objectives: Sequence[Objective]) -> list[RowT]:
    """The rows that no other row dominates, by the first objective, then by the next ones; less is better.

    A row without a figure for one of the objectives is left out: nothing can be said of it. Rows with equal
    figures do not dominate one another. ValueError without objectives.
    """
    if not objectives:
        raise ValueError("a front has at least one objective")
    known = [(figures, row) for row in rows if (figures := _figures(row, objectives)) is not None]
    known.sort(key=lambda pair: pair[0])
    front: list[tuple[tuple[float, ...], RowT]] = []
    for figures, row in known:  # whoever dominates it sorts before it, and so does one on the front
        if not any(_dominates(other, figures) for other, _ in front):
            front.append((figures, row))
    return [row for _, row in front]


def _figures(row: Mapping[str, Any], objectives: Sequence[Objective]) -> tuple[float, ...] | None:
    found = [row.get(objective.column) for objective in objectives]
    if any(figure is None or figure != figure for figure in found):  # a NaN differs from itself
        return None
    return tuple(float(figure) for figure in found if figure is not None)


def _dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))
