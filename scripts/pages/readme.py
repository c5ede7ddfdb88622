"""Writes what is generated within README.md and pages of docs/ that are otherwise written by hand.

    python -m scripts.pages.readme             write it
    python -m scripts.pages.readme --check     say whether any of it is stale

No measured figure and no number of operators, genes or frauds enters these pages by hand: what stands between
markers, and the numbers in the sentences of counts.py, are what records and code say.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from scripts import ROOT
from scripts.pages import h200, markdown, rivals, unseen
from scripts.pages.parts import (
    code_map,
    counts,
    proposal_way,
    replay_table,
    search_tables,
    settings,
)
from scripts.peers import rows as peers_rows
from scripts.records import read_record


def peers() -> str:
    """What docs/h200.md says, in a line for each kind of row."""
    return h200.digest(read_record(h200.RECORD), peers_rows.anchors())


def unseen_problems() -> str:
    """What docs/unseen.md says, in two sentences."""
    alone = unseen.records(unseen.FOLDER, unseen.ALONE)
    return unseen.digest(unseen.records(unseen.FOLDER), alone)


def serving_and_linear() -> str:
    """What docs/serving.md and docs/linear.md say, in two sentences."""
    return rivals.digest(*(read_record(rivals.newest(name)) for name in ("serving", "linear")))


PARTS: dict[str, dict[str, Callable[[], str]]] = {  # what makes the text between two markers, by page
    "README.md": {"peers": peers, "unseen": unseen_problems, "rivals": serving_and_linear},
    "docs/searching.md": {
        "replays": replay_table.table,
        "leaderboard": lambda: search_tables.table(search_tables.searches()),
    },
    "docs/commands.md": {"settings": settings.table},
    "docs/families.md": {"families": code_map.families},
    "docs/architecture.md": {
        "packages": code_map.packages,
        "layers": code_map.layers,
        "proposal": proposal_way.table,
    },
}
PAGES = tuple(dict.fromkeys((*PARTS, *(count.page for count in counts.COUNTS))))


def updated(page: str, text: str) -> str:
    """The text of a page with its parts and numbers made anew."""
    for mark, make in PARTS.get(page, {}).items():
        begin, end = f"<!-- {mark} -->", f"<!-- /{mark} -->"
        if begin not in text:
            raise ValueError(f"{page} has no marker '{begin}': adapt scripts/pages/readme.py.")
        text = markdown.between(text, begin, end, make())
    return counts.counted(page, text)


def fresh_pages() -> Iterator[tuple[Path, str]]:
    """Each page, and what it should be."""
    for page in PAGES:
        yield ROOT / page, updated(page, (ROOT / page).read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(markdown.run(__doc__, "scripts.pages.readme", fresh_pages))
