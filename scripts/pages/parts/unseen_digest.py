"""The README's table of docs/unseen.md: searches of problems that nobody tuned, a line a measurement.

Written into the README by scripts/pages/readme.py. Measures nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from scripts.pages import markdown, unseen
from scripts.peers.ratios import mean

_HEADS = (
    "GPU, each search",
    "problems",
    "fastest library's time over ours, geometric mean",
    "the least",
    "libraries",
)
_FEWEST = 5  # problems, for a mean that says something


def digest(records: Sequence[Mapping[str, Any]]) -> str:
    """A row for each measurement of several such problems, the newest first."""
    several = [record for record in records if len(unseen.untuned(record)) >= _FEWEST]
    several.sort(key=lambda record: str(record["date"]), reverse=True)
    return "\n".join(markdown.table(_HEADS, map(_row, several))) + "\n"


def _row(record: Mapping[str, Any]) -> list[str]:
    lines = unseen.untuned(record)
    least = min(lines, key=lambda line: line.states[0].peers[0].ratio)
    best = least.states[0].peers[0]
    return [
        f"{record['gpu']}, {unseen.spent(record)}",
        str(len(lines)),
        f"{mean(lines):.3f}",
        f"{best.ratio:.3f} (`{least.row}`, {best.peer})",
        "; ".join(unseen.libraries(record)),
    ]
