"""Tables in Markdown, text between two marks of a page, and whole pages written or held against old ones."""

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from scripts import ROOT


def table(heads: Sequence[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """A table, line by line; a bar within a cell is escaped."""
    return [row(heads), row(["---"] * len(heads)), *map(row, rows)]


def row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def between(page: str, begin: str, end: str, content: str) -> str:
    """The page with the content in place of what stands between the two marks."""
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{content}{end}{after}"


def keep(page: Path, fresh: str, *, made_by: str, is_check: bool) -> int:
    """Write a page that a script makes whole; or say, and answer 1, where what is there is another."""
    if not is_check:
        page.write_text(fresh, encoding="utf-8")
        return 0
    is_stale = not page.exists() or page.read_text(encoding="utf-8") != fresh
    if is_stale:
        name = page.relative_to(ROOT) if page.is_relative_to(ROOT) else page
        print(f"{name} is older than what it is made of: run {made_by}.")
    return int(is_stale)


def run(about: str, made_by: str, pages: Callable[[], Iterable[tuple[Path, str]]]) -> int:
    """The command of a script that makes pages: writes them, or with --check says which are stale."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say what is stale")
    is_check = parser.parse_args().check
    return max([keep(page, fresh, made_by=made_by, is_check=is_check) for page, fresh in pages()], default=0)
