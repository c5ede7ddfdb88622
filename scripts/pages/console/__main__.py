"""The command line: the console blocks of all pages, or of those named, made anew or compared."""

import argparse
import difflib
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from scripts import ROOT
from scripts.pages import console
from scripts.pages.console.blocks import PROMPT, Block, blocks, replaced
from scripts.pages.console.session import Session, comparable

RECORDS = ROOT / "scripts" / "pages" / "records" / "console"


def pages() -> list[Path]:
    """All that may hold a block."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def made(page: str, *, records: Path, is_full: bool, cache: Path) -> list[str]:
    """The text of each block of a page: run now, read from its record, or as it stands."""
    with tempfile.TemporaryDirectory() as home:
        session = Session(Path(home), cache)
        return [_text(block, session, records=records, is_full=is_full) for block in blocks(page)]


def _text(block: Block, session: Session, *, records: Path, is_full: bool) -> str:
    if block.kind == "shown":
        return block.text
    record = records / f"{block.name}.txt"
    if block.kind == "kept" and not is_full:
        if not record.exists():  # the page's test names it
            return "".join(f"{PROMPT}{command}\n" for command in block.commands)
        return record.read_text(encoding="utf-8")
    old, new = block.text, session.transcript(block.commands)
    return old if comparable(old) == comparable(new) else new


def keep(page: str, texts: Sequence[str], records: Path) -> None:
    """Write the records of a page's kept blocks."""
    for block, text in zip(blocks(page), texts, strict=True):
        if block.kind == "kept":
            (records / f"{block.name}.txt").write_text(text, encoding="utf-8")


def difference(name: str, stored: str, fresh: str) -> str:
    """What is not as the commands print it, as a unified diff."""
    lines = difflib.unified_diff(stored.splitlines(), fresh.splitlines(), name, "as printed now", lineterm="")
    return "\n".join(lines)


def main() -> int:
    """Write, or with --check compare; 1 where a page is stale and only to be checked."""
    parser = argparse.ArgumentParser(description=(console.__doc__ or "").splitlines()[0])
    parser.add_argument("pages", nargs="*", type=Path, help="default: the README and all of docs/")
    parser.add_argument("--check", action="store_true", help="only say what is stale")
    parser.add_argument("--full", action="store_true", help="also run what takes long")
    args, stale = parser.parse_args(), 0
    with tempfile.TemporaryDirectory() as own:
        cache = Path(os.environ.get("CACHE_OF_TESTS") or own)  # scripts/test has one for all that it runs
        for path in args.pages or pages():
            stored = path.read_text(encoding="utf-8")
            texts = made(stored, records=RECORDS, is_full=args.full, cache=cache)
            fresh = replaced(stored, texts)
            if args.check and fresh != stored:
                print(difference(str(path), stored, fresh))
                stale = 1
            elif not args.check:
                path.write_text(fresh, encoding="utf-8")
                if args.full:
                    keep(fresh, texts, RECORDS)
    if stale:
        print("console blocks are stale: run `python -m scripts.pages.console`, with --full for kept ones.")
    return stale


if __name__ == "__main__":
    sys.exit(main())
