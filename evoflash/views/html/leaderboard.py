"""The leaderboard as one HTML page with a chart and a table for each ranking. Reads no store.

The page needs no other file.
"""

from itertools import groupby
from operator import itemgetter
from typing import Any

from evoflash.app.leaderboard import RANKING, Rankings
from evoflash.views.html.charts import Bar, bars
from evoflash.views.html.markup import HtmlColumn, escape, number_column, paragraphs, sorting, table
from evoflash.views.html.report import document
from evoflash.views.leaderboard import nothing, rankings_in_words

# What a column is sorted by; the others are text.
_KEYS = {
    **{"#": "rank", "us": "score_us", "est. us": "score_us", "p10-p90": "p10_us", "speed-up": "speedup"},
    **{"GB/s": "tflops", "TFLOPS": "tflops", "regs": "registers", "spills": "spill_bytes"},
}
_DRAWN = 20  # rows of a ranking


def page(found: Rankings) -> str:
    """Every row; cells read as on a terminal, estimates carry their mark."""
    rankings = groupby(found.as_dicts(), key=itemgetter(*RANKING))
    words = rankings_in_words(found)
    parts = [_ranking(list(rows), *said) for (_, rows), said in zip(rankings, words, strict=True)]
    return document("evoflash leaderboard", f"<main>{''.join(parts) or paragraphs([nothing(found)])}</main>")


def _ranking(
    rows: list[dict[str, Any]], title: str, names: tuple[str, ...], cells: tuple[tuple[str, ...], ...]
) -> str:
    shown = [(row, dict(zip(names, texts, strict=True))) for row, texts in zip(rows, cells, strict=True)]
    drawn = [_bar(*each) for each in shown]
    chart = bars(drawn[:_DRAWN], f"Times of the first {min(_DRAWN, len(drawn))}")
    shown_table = table(
        [_column(name) for name in names], shown, caption=title, attributes=' class="sortable"'
    )
    return f"<section><h2>{escape(title)}</h2>{chart}{shown_table}</section>"


def _column(name: str) -> HtmlColumn:
    if name in _KEYS:
        return number_column(name, lambda row: escape(row[1][name]), lambda row: sorting(row[0][_KEYS[name]]))
    if name == "genome":
        return HtmlColumn(name, lambda row: f"<code>{escape(row[1][name])}</code>")
    return HtmlColumn(name, lambda row: escape(row[1][name]))


def _bar(row: dict[str, Any], texts: dict[str, str]) -> Bar:
    is_library = row["kind"] == "baseline"
    name = row["name"] if is_library else f"{row['name']} {row['genome_id'][:8]}"
    words = texts.get("us") or texts.get("est. us", "")
    return Bar(name, row["score_us"] or 0.0, f"{words} us", "c1" if is_library else "c0")
