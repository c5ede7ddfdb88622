"""Tables in Markdown, and text between two marks of a page. Reads and writes no file."""

from collections.abc import Iterable, Sequence


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
