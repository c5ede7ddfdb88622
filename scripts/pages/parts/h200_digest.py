"""The README's table of an H200: what docs/h200.md says of each kind of row, in a line each.

Written into the README by scripts/pages/readme.py. Measures nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from scripts.pages.h200 import MEAN_TARGET
from scripts.pages.markdown import table
from scripts.peers.ratios import Line, least, line_of, mean, target

_HEADS = ("rows", "fastest peer's time over ours, geometric mean", "the least", "target", "met")
_KINDS = {  # by their target, and what it is about
    1.25: ("up to 512 queries", "1.25 each"),
    1.05: ("head dimension 64, from 1k", "1.05 each"),
    1.00: ("head dimension 128", "1.00 each"),
    0.97: ("decoding, 8k", "reads at 0.97 of the bandwidth"),
}


def digest(record: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]]) -> str:
    """A table with a row for each kind of row: how many, their mean, the least ratio, targets met."""
    found = [line_of(row, known.get(row["row"], {})) for row in record["rows"]]
    lines = [line for line in found if line]
    rows = []
    for aim, (name, words) in _KINDS.items():
        if chosen := [line for line in lines if target(line.row) == aim]:
            rows.append(_digested(name, words, chosen))
    return "\n".join(table(_HEADS, [*rows, _digested("all", f"{MEAN_TARGET} in the mean", lines)])) + "\n"


def _digested(name: str, aim: str, lines: Sequence[Line]) -> list[str]:
    lowest = least(lines)
    best = lowest.states[0].peers[0]
    met = sum(line.is_met == "yes" for line in lines)
    worst = f"{best.ratio:.3f} (`{lowest.row}`, {best.peer})"
    return [f"{name} ({len(lines)})", f"{mean(lines):.3f}", worst, aim, f"{met} of {len(lines)}"]
