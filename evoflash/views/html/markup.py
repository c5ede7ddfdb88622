"""Writes numbers, tables and text as HTML; everything that is not ours is escaped. Knows no report.

A number stands in a <data> element with its whole value, so that a program can read the page as well.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from evoflash.app.words import short

__all__ = ["Cell", "Figures", "HtmlColumn", "escape", "note", "paragraphs", "sorting", "table"]


@dataclass(frozen=True, slots=True)
class Cell:
    """A table's cell; `key` is what it is sorted by, the number or the text itself where it is None."""

    html: str
    key: float | str | None = None


@dataclass(frozen=True, slots=True)
class HtmlColumn:
    """A table's column."""

    name: str
    is_number: bool = False
    help: str = ""  # shown over its header


@dataclass(frozen=True, slots=True)
class Figures:
    """How numbers read. `mark` stands before every one that goes back to a model's estimate."""

    mark: str

    def us(self, value: float | None, *, unit: str = "") -> str:
        """A time in microseconds, four digits of it."""
        return _data(value, f"{self.mark}{short(value)}{unit}" if value is not None else "")

    def times(self, value: float | None) -> str:
        """A ratio of times, as `1.107x`."""
        return _data(value, f"{self.mark}{value:.3f}x" if value is not None else "")

    def change(self, value: float | None) -> str:
        """A ratio as what it adds or takes off: 0.9 reads -10.0 %."""
        if value is None:
            return ""
        words = _signed_number(100 * (value - 1))
        between = "\u2009" if self.mark and words[0] in "+\u2212" else ""  # "~-" would look like one sign
        return _data(value, f"{self.mark}{between}{words} %")

    def share(self, value: float | None) -> str:
        """A share of 1 in percent."""
        return _data(value, f"{self.mark}{100 * value:.0f} %" if value is not None else "")

    def rate(self, value: float | None) -> str:
        """TFLOPS."""
        return _data(value, f"{self.mark}{short(value)}" if value is not None else "")

    @staticmethod
    def exact(value: float | None) -> str:
        """A number that is no estimate: a count, a size, an error."""
        if value is None:
            return ""
        text = (
            f"{value:,}" if isinstance(value, int) else f"{value:.2e}" if abs(value) < 1e-2 else short(value)
        )
        return _data(value, text)


def _signed_number(value: float) -> str:
    words = f"{value:+.1f}".replace("-", "\u2212")  # a minus, and no hyphen
    return "0.0" if float(f"{value:.1f}") == 0 else words


def _data(value: float | None, text: str) -> str:
    return "" if value is None else f'<data value="{value!r}">{escape(text)}</data>'


def sorting(value: float | None) -> float | str:
    """A cell's key; one without a value stays last."""
    return "" if value is None else value


def table(
    columns: Sequence[HtmlColumn],
    rows: Iterable[Sequence[Cell]],
    *,
    caption: str,
    attributes: str = "",
    row_attributes: Sequence[str] = (),
) -> str:
    """A table in a box that scrolls sideways on a narrow screen."""
    head = "".join(
        f'<th scope="col"{_kind(column)}{_title(column)}>{escape(column.name)}</th>' for column in columns
    )
    body = "".join(
        f"<tr{row_attributes[at] if row_attributes else ''}>"
        + "".join(_cell(column, cell) for column, cell in zip(columns, row, strict=True))
        + "</tr>"
        for at, row in enumerate(rows)
    )
    label = escape(caption, quote=True)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table{attributes}>'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _kind(column: HtmlColumn) -> str:
    return ' class="n"' if column.is_number else ""


def _title(column: HtmlColumn) -> str:
    return f' title="{escape(column.help, quote=True)}"' if column.help else ""


def _cell(column: HtmlColumn, cell: Cell) -> str:
    key = "" if cell.key is None else f' data-key="{escape(str(cell.key), quote=True)}"'
    return f"<td{_kind(column)}{key}>{cell.html}</td>"


def paragraphs(lines: Iterable[str]) -> str:
    """A paragraph for each line; what stands between ` is code."""
    return "".join(f"<p>{_with_code(line)}</p>" for line in lines if line)


def note(text: str) -> str:
    """A paragraph that stands back."""
    return f'<p class="soft">{_with_code(text)}</p>' if text else ""


def _with_code(line: str) -> str:
    parts = escape(line, quote=False).split("`")
    if len(parts) % 2 == 0:  # a lone ` is one
        return escape(line, quote=False)
    return "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))
