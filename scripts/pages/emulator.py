"""Writes the table of docs/emulator.md that says what each kind of finding means.

python -m scripts.pages.emulator             write it
python -m scripts.pages.emulator --check     say whether it is stale
"""

import argparse
import sys

from evoflash.app.check.findings import KINDS
from scripts import ROOT
from scripts.pages import markdown

PAGE = ROOT / "docs" / "emulator.md"


def with_table(page: str) -> str:
    """The page with its table made anew."""
    rows = ((f"`{kind}`", each.meaning) for kind, each in KINDS.items())
    table = "\n".join(markdown.table(("kind", "what it means"), rows)) + "\n"
    return markdown.between(page, "<!-- kinds -->", "<!-- /kinds -->", table)


def main() -> int:
    """Write the page, or with --check say whether it is stale (1)."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether the table is stale")
    args = parser.parse_args()
    stored = PAGE.read_text(encoding="utf-8")
    fresh = with_table(stored)
    if args.check:
        if fresh != stored:
            print("docs/emulator.md: its table is stale: run scripts.pages.emulator.", file=sys.stderr)
        return int(fresh != stored)
    PAGE.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
