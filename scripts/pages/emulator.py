"""Writes the table of docs/emulator.md that says what each kind of finding means.

python -m scripts.pages.emulator             write it
python -m scripts.pages.emulator --check     say whether it is stale
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from evoflash.app.check.findings import KINDS
from scripts import ROOT
from scripts.pages import markdown

PAGE = ROOT / "docs" / "emulator.md"


def with_table(page: str) -> str:
    """The page with its table made anew."""
    rows = ((f"`{kind}`", each.meaning) for kind, each in KINDS.items())
    table = "\n".join(markdown.table(("kind", "what it means"), rows)) + "\n"
    return markdown.between(page, "<!-- kinds -->", "<!-- /kinds -->", table)


def fresh_pages() -> Iterator[tuple[Path, str]]:
    """The page, and what it should be."""
    yield PAGE, with_table(PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(markdown.run(__doc__, "scripts.pages.emulator", fresh_pages))
