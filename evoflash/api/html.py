"""Shows the records of the Python interface as HTML in notebooks. Everything that is not ours is escaped."""

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import CudaLexer

from evoflash.errors import EvoflashError
from evoflash.views import kernel as kernel_report

if TYPE_CHECKING:  # the records import this module when a notebook shows them
    from evoflash.api.records import Kernel, Leaderboard, Ranking, SearchResult

_SOURCE = "evoflash-source"  # the CSS class that our colours are confined to
_PRE = '<pre style="line-height:1.25;overflow-x:auto">{code}</pre>'


def kernel(shown: "Kernel") -> str:
    """Verdict, time with its mark, values, and the source, folded."""
    evaluation = shown.evaluation
    rows = {
        "kernel": f"{shown.id}, {shown.family}",
        "problem": f"{shown.problem} on {shown.gpu}",
        "verdict": f"{shown.status}" + (f": {shown.reason}" if shown.reason else ""),
        "checked": kernel_report.describe_checks(evaluation.verdicts).removeprefix("checked").strip(),
        "time": shown.time,
        "values": " ".join(f"{name}={value}" for name, value in shown.values.items()),
    }
    return _definitions(rows) + _source(shown)


def leaderboard(shown: "Leaderboard") -> str:
    """A table for each ranking."""
    if not len(shown):
        return "<p>No correct kernel is stored for this.</p>"
    return "".join(map(_ranking, shown.rankings))


def search_result(shown: "SearchResult") -> str:
    """What was spent, and the best kernel."""
    ended = "interrupted after" if shown.is_interrupted else "ended after"
    head = f"<p>Search {ended} {shown.spent} evaluations.</p>"
    return head + (kernel(shown.best) if shown.best else "<p>No kernel was correct.</p>")


def pre_element(text: str) -> str:
    """Text in its own lines."""
    return _PRE.format(code=escape(text))


def _ranking(shown: "Ranking") -> str:
    head = _row(shown.columns, "th")
    body = "".join(_row(cells, "td") for cells in shown.cells)
    return (
        f"<table><caption>{escape(shown.title)}</caption><thead>{head}</thead><tbody>{body}</tbody></table>"
    )


def _definitions(rows: dict[str, str]) -> str:
    return f"<table>{''.join(_row(row, 'td') for row in rows.items())}</table>"


def _row(cells: Iterable[str], tag: str) -> str:
    style = 'style="text-align:left"'
    return f"<tr>{''.join(f'<{tag} {style}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def _source(shown: "Kernel") -> str:
    try:
        text = shown.cuda
    except EvoflashError as error:  # several kernels, or a family that is gone: the record is shown without
        return f"<p>{escape(str(error))}</p>"
    summary = f"{text.count(chr(10))} lines of CUDA"
    return f"<details><summary>{summary}</summary>{_highlight_cuda(text)}</details>"


def _highlight_cuda(cuda: str) -> str:
    colours = HtmlFormatter(cssclass=_SOURCE)
    styles = colours.get_style_defs(f".{_SOURCE}")
    return f"<style>{styles}</style>{highlight(cuda, CudaLexer(), colours)}"
