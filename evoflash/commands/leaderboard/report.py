"""The leaderboard as tables, Markdown, JSON or CSV, with a mark on every estimate. Reads no store."""

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from rich.console import Console
from rich.markup import escape

from evoflash.commands import tables
from evoflash.commands.leaderboard.table import RANKING, Table
from evoflash.evaluation import Basis

Row = Mapping[str, Any]
_NOTHING = "No correct kernel is stored for this: run `evoflash search`, or ask for less."


def as_json(table: Table) -> str:
    """One object, {"leaderboard": [...]}; a row's keys are the columns, its genes are under `values`."""
    return json.dumps({"leaderboard": [_with_genes(row) for row in table.as_dicts()]}, indent=2)


def _with_genes(row: dict[str, Any]) -> dict[str, Any]:
    genes = row.pop("values_json")
    return row | {"values": None if genes is None else json.loads(genes)}


def as_csv(table: Table) -> str:
    """A header line and one line per row, RFC 4180 with bare newlines; numbers as stored."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    return text.getvalue()


def as_markdown(table: Table) -> str:
    """A heading and a pipe table for each ranking."""
    return "\n".join(_markdown_ranking(rows) for rows in _rankings(table)) or f"{_NOTHING}\n"


def _markdown_ranking(rows: list[Row]) -> str:
    shown = _columns(rows)
    lines = [list(shown), ["---:" if name in _NUMBERS else "---" for name in shown]]
    lines += [[cell(row).replace("|", "\\|") for cell in shown.values()] for row in rows]
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"### {_title(rows)}\n\n{body}\n"


def rankings_in_words(table: Table) -> Iterator[tuple[str, tuple[str, ...], tuple[tuple[str, ...], ...]]]:
    """For each ranking its title, the columns that are not empty, and the cells as they are shown."""
    for rows in _rankings(table):
        shown = _columns(rows)
        yield _title(rows), tuple(shown), tuple(tuple(cell(row) for cell in shown.values()) for row in rows)


def print_table(table: Table, console: Console, *, wide: bool = False) -> None:
    """One table for each ranking, as wide as the terminal or, with `wide`, as its columns; a line that says
    what to do when there is none.
    """
    if not table.rows:
        console.print(escape(_NOTHING))
    for at, rows in enumerate(_rankings(table)):
        if at:
            console.print()
        columns = [
            tables.Column(name, tuple(map(cell, rows)), _RANKS[name], is_number=name in _NUMBERS)
            for name, cell in _columns(rows).items()
        ]
        styles = ["dim" if row["kind"] == "baseline" else "" for row in rows]
        tables.print_table(
            columns, console, title=_title(rows), styles=styles, wide=wide, rest="--wide or --json shows all"
        )


def _rankings(table: Table) -> Iterator[list[Row]]:
    for _, rows in groupby(table.as_dicts(), key=itemgetter(*RANKING)):
        yield list(rows)


def _title(rows: list[Row]) -> str:
    basis = Basis(rows[0]["basis"])
    models = sorted({row["model_version"] for row in rows if row["model_version"]})
    estimates = f"estimated by model {', '.join(models) or 'unknown'}, not measured"
    words = {
        Basis.MEASURED: "measured",
        Basis.REPLAYED: "replayed from a recording" + (f", {estimates}" if _is_estimated(rows) else ""),
        Basis.ESTIMATED: estimates,
    }
    return f"{rows[0]['problem']} on {rows[0]['gpu']}: {words[basis]}"


def _is_estimated(rows: list[Row]) -> bool:
    return any(row["basis"] == Basis.ESTIMATED.value or row["model_version"] for row in rows)


# What a narrow terminal goes without first has the highest number; 0 is always shown.
_RANKS = {
    **{"#": 0, "kernel": 0, "us": 0, "est. us": 0, "genome": 1, "speed-up": 2, "TFLOPS": 3, "p10-p90": 4},
    **{"bound": 5, "regs": 6, "spills": 7, "timed": 8, "search": 9},
}
_NUMBERS = {"#", "us", "est. us", "p10-p90", "speed-up", "TFLOPS", "regs", "spills"}


def _columns(rows: list[Row]) -> dict[str, Callable[[Row], str]]:
    """Headers and how each cell reads; figures of an estimate carry a '~', what no row has is left out."""
    estimated = _is_estimated(rows)
    mark = "~" if estimated else ""
    columns: dict[str, Callable[[Row], str]] = {
        "#": lambda row: str(row["rank"]),
        "kernel": lambda row: row["name"],
        "genome": lambda row: row["genome_id"] or row["kind"],
        "est. us" if estimated else "us": lambda row: _figure(row["score_us"], mark),
        "p10-p90": lambda row: _spread(row, mark),
        "speed-up": lambda row: _speedup(row, mark),
        "TFLOPS": lambda row: _figure(row["tflops"], mark),
        "regs": lambda row: _count(row["registers"]),
        "spills": lambda row: _count(row["spill_bytes"]),
        "bound": lambda row: row["bound"],
        "timed": lambda row: row["protocol"],
        "search": lambda row: f"{row['strategy']} seed {row['seed']} run {row['run']}",
    }
    return {name: cell for name, cell in columns.items() if any(cell(row) for row in rows)}


def _figure(number: float | None, mark: str) -> str:
    return "" if number is None else f"{mark}{number:.4g}" if number < 1000 else f"{mark}{number:.0f}"


def _spread(row: Row, mark: str) -> str:
    if row["p10_us"] is None or row["p90_us"] is None or row["n"] == 1:  # an estimate has no spread
        return ""
    return f"{_figure(row['p10_us'], mark)}-{_figure(row['p90_us'], mark)}"


def _speedup(row: Row, mark: str) -> str:
    return "" if row["speedup"] is None else f"{mark}{row['speedup']:.2f}x {row['speedup_vs']}"


def _count(number: int | None) -> str:
    return "" if number is None else str(number)
