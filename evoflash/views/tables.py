"""Writes a table as wide as where it is printed. Knows nothing of what stands in the cells.

The least important columns are left out, no figure is cut. A line below the table says which columns those
are and how to see them. A file or a pipe gets every column.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table

_BETWEEN = 2  # blanks between two columns


@dataclass(frozen=True, slots=True)
class Column:
    """A header and the cells below it, as they are shown."""

    name: str
    cells: tuple[str, ...]
    rank: int = 0  # the column of the highest rank is left out first; 0: it is always shown
    is_number: bool = True
    wraps_at: int = 0  # prose, which may be broken into lines of so many characters; 0: one line

    @property
    def width(self) -> int:
        """The fewest characters that hold every cell; of prose, what it is given at least."""
        whole = max(cell_len(text) for text in (self.name, *self.cells))
        return min(whole, max(self.wraps_at, cell_len(self.name))) if self.wraps_at else whole


def fitting(columns: Sequence[Column], width: int) -> tuple[Column, ...]:
    """The columns that are shown in so many characters."""
    shown = list(columns)
    while _width(shown) > width and any(column.rank for column in shown):
        shown.remove(max(shown, key=lambda column: column.rank))
    return tuple(shown)


def _width(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + _BETWEEN * (len(columns) - 1)


def print_table(
    columns: Sequence[Column],
    console: Console,
    *,
    title: str = "",
    styles: Sequence[str] = (),
    wide: bool = False,
    rest: str = "--json shows all",
) -> None:
    """The columns that fit the terminal; all of them where `wide` is set or there is no terminal.

    `styles` has one for each row; `rest` says, where columns were left out, how to see them.
    """
    if not console.is_terminal:
        _write_lines(columns, console, title)
        return
    all_wanted = wide
    shown = tuple(columns) if all_wanted else fitting(columns, console.width)
    if title:
        console.print(escape(title), style="italic", highlight=False, soft_wrap=all_wanted)
    room = console.width
    console.width = max(room, _width(shown)) if all_wanted else room
    console.print(_grid(shown, styles), crop=False, soft_wrap=all_wanted)
    console.width = room
    left_out = [column.name for column in columns if column not in shown]
    if left_out:
        console.print(
            escape(f"{room} characters leave no room for {', '.join(left_out)}: {rest}."), highlight=False
        )


def _write_lines(columns: Sequence[Column], console: Console, title: str) -> None:
    """Each row in one line, for files and pipes: nothing is broken, cut or filled with blanks at its end."""
    widths = [max(cell_len(text) for text in (column.name, *column.cells)) for column in columns]
    names = tuple(column.name for column in columns)
    lines = [
        _line(columns, widths, cells) for cells in (names, *zip(*(c.cells for c in columns), strict=True))
    ]
    rule = "\u2500" * (sum(widths) + _BETWEEN * (len(widths) - 1))
    shown = (*([title] if title else []), lines[0], rule, *lines[1:])
    for line in shown:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _line(columns: Sequence[Column], widths: Sequence[int], cells: Sequence[str]) -> str:
    padded = (
        blanks + cell if column.is_number else cell + blanks
        for column, width, cell in zip(columns, widths, cells, strict=True)
        for blanks in [" " * (width - cell_len(cell))]
    )
    return (" " * _BETWEEN).join(padded).rstrip()


def _grid(columns: Sequence[Column], styles: Sequence[str]) -> Table:
    grid = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    for column in columns:
        justify, is_prose = "right" if column.is_number else "left", bool(column.wraps_at)
        grid.add_column(
            escape(column.name),
            justify=justify,  # type: ignore[arg-type]  # one of two words
            no_wrap=not is_prose,
            min_width=column.width,
            overflow="fold",  # of prose: a word that is longer than its line
        )
    for at, cells in enumerate(zip(*(column.cells for column in columns), strict=True)):
        grid.add_row(*map(escape, cells), style=styles[at] if styles else None)
    return grid
