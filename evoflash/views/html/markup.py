"""Writes numbers, tables and text as HTML; everything that is not ours is escaped. Knows no report.

A number stands in a <data> element with its whole value, so that a program can read the page as well.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape as escape
from typing import Any

from evoflash.app.report.record import short

Row = Any  # whatever a table has a row for; of a record as JSON its fields by name


@dataclass(frozen=True, slots=True)
class HtmlColumn:
    """A table's column: a row's cell as HTML, and what it is sorted by (None: by the cell itself)."""

    name: str
    html: Callable[[Row], str]
    key: Callable[[Row], float | str | None] = lambda _: None
    is_number: bool = False


def text_column(name: str, field: str = "") -> HtmlColumn:
    """A field as it is; by default the one that the column is named by."""
    return HtmlColumn(name, lambda row: escape(str(row[field or name])))


def code_column(name: str, field: str = "id") -> HtmlColumn:
    return HtmlColumn(name, lambda row: f"<code>{escape(row[field])}</code>")


def number_column(
    name: str, html: Callable[[Row], str], key: Callable[[Row], float | str | None] = lambda _: None
) -> HtmlColumn:
    return HtmlColumn(name, html, key, is_number=True)


def figure_column(name: str, figure: Callable[[Any], str], field: str, *, sorts: bool = False) -> HtmlColumn:
    """A number of a row, as `figure` writes it; with `sorts` rows can be sorted by it."""
    key = (lambda row: sorting(row[field])) if sorts else (lambda _: None)
    return number_column(name, lambda row: figure(row[field]), key)


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

    def interval(self, found: Row) -> str:
        """From the lower end of a ratio's interval to its upper one."""
        return f"{self.times(found['low'])} to {self.times(found['high'])}"

    def spread(self, found: Row) -> str:
        """From the tenth percentile of a time to the ninetieth."""
        return f"{self.us(found['p10_us'])} to {self.us(found['p90_us'])}"

    def change(self, value: float | None) -> str:
        """A ratio as what it adds or takes off: 0.9 reads -10.0 %."""
        if value is None:
            return ""
        words = _signed_number(100 * (value - 1))
        sign = words[0] if words[0] in "+\u2212" else ""  # before the mark: "~-" would look like one sign
        return _data(value, f"{sign}{self.mark}{words.removeprefix(sign)} %")

    def share(self, value: float | None) -> str:
        """A share of 1 in percent."""
        return _data(value, f"{self.mark}{100 * value:.0f} %" if value is not None else "")

    def rate(self, value: float | None) -> str:
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
    rows: Iterable[Row],
    *,
    caption: str,
    attributes: str = "",
    row_attributes: Sequence[str] = (),
) -> str:
    """A table in a box that scrolls sideways on a narrow screen."""
    head = "".join(f'<th scope="col"{_kind(column)}>{escape(column.name)}</th>' for column in columns)
    body = "".join(
        f"<tr{row_attributes[at] if row_attributes else ''}>"
        + "".join(_cell(column, row) for column in columns)
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


def _cell(column: HtmlColumn, row: Row) -> str:
    key = column.key(row)
    sorts = "" if key is None else f' data-key="{escape(str(key), quote=True)}"'
    return f"<td{_kind(column)}{sorts}>{column.html(row)}</td>"


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
