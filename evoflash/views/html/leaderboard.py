"""The leaderboard, and what is known for several problems, each as one HTML page. Reads no store.

A leaderboard has a chart and a table for each ranking. A page needs no other file.
"""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from evoflash.app.best import KnownForProblem
from evoflash.app.leaderboard import RANKING, Rankings
from evoflash.champions import Champion
from evoflash.views.html.charts import Bar, bars
from evoflash.views.html.markup import HtmlColumn, escape, number_column, paragraphs, sorting, table
from evoflash.views.html.report import document
from evoflash.views.leaderboard import nothing, rankings_in_words
from evoflash.views.search import known_cells

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
    shown = "".join(parts) or paragraphs([nothing(found)])
    return document("evoflash leaderboard", f"<main>{shown}{paragraphs(found.older)}</main>")


def page_of_problems(found: Sequence[KnownForProblem], file: str) -> str:
    """A row for each problem: the kernel to use with its time, the libraries' of the archive, the search."""
    names = ("problem", "us", "where from", "genome", "family", "fastest library", "search")
    rows = [(_numbers_of(each), dict(zip(names, _texts_of(each), strict=True))) for each in found]
    known = sum(each.is_known for each in found)
    estimated = any(texts["us"].startswith("~") for _, texts in rows)
    said = [
        f"{known} of {len(found)} problems of {file} have a kernel.",
        *(["~: estimated by a model, not measured."] if estimated else []),
    ]
    shown = table([_column(name) for name in names], rows, caption="Kernels", attributes=' class="sortable"')
    return document("evoflash problems", f"<main>{paragraphs(said)}{shown}</main>")


def _numbers_of(known: KnownForProblem) -> dict[str, Any]:
    return {"score_us": known.as_dict()["time_us"]}


def _texts_of(known: KnownForProblem) -> tuple[str, ...]:
    """Of the archive's kernel how much longer the fastest library of its run takes."""
    rival, run = "", known.search
    if isinstance(known.kernel, Champion) and (fastest := known.kernel.fastest_rival):
        rival = f"{fastest[0]}, {fastest[1] / known.kernel.us:.2f} times as long"
    search = f"run {run.id}, {run.key.search_name} seed {run.key.seed}" if run else ""
    return (*known_cells(known), rival, search)


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
