"""What operators make of one parent, and moves.toml, which says what they must make. Tests nothing."""

import tomllib
from collections.abc import Iterable

import pytest
from places import TESTS

from evoflash.space import Genome, Value

TOLD = tomllib.loads((TESTS / "mutations" / "moves.toml").read_text(encoding="utf-8"))
Move = dict[str, Value]  # each gene that changed, with its new value


def each_move(part: str) -> list[object]:
    return [pytest.param(row, id=f"{row['operator']}-{row['has']}") for row in TOLD[part]]


def difference(parent: Genome, child: Genome) -> Move:
    """The new value of each gene that is another one; "gone": the child has no such gene."""
    before, after = parent.as_dict(), child.as_dict()
    return {name: after.get(name, "gone") for name in before | after if before.get(name) != after.get(name)}


def different(moves: Iterable[Move]) -> list[str]:
    """Each of the moves once, in an order that does not depend on theirs."""
    return sorted({str(sorted(move.items())) for move in moves})
