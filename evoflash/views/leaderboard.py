"""Shows the leaderboard as tables, Markdown or CSV, and the libraries' times as tables. Reads no store.

Every estimate is marked.
"""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from rich.console import Console
from rich.markup import escape

from evoflash.app.baselines import BaselineTimes
from evoflash.app.catalogue import problem_and_name
from evoflash.app.leaderboard import RANKING, Rankings, databases_of, short_names
from evoflash.app.objectives import Objective
from evoflash.champions import ARCHIVED
from evoflash.champions.evidence import archived_for, percent_of
from evoflash.errors import UsageError
from evoflash.estimate_error import error_sentence, likely_us, ties
from evoflash.evaluation import Basis
from evoflash.problem import parse_problem
from evoflash.views import tables
from evoflash.views.terminal import four_digits

Row = Mapping[str, Any]
NOTHING = "No correct kernel that fits is stored: run `evoflash search`, or leave a filter out."


def as_csv(table: Rankings) -> str:
    """A header line and one line per row, RFC 4180 with bare newlines; numbers as stored."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    return text.getvalue()


def as_markdown(table: Rankings) -> str:
    """A heading and a pipe table for each ranking."""
    rankings = [_markdown_ranking(table, rows) for rows in _rankings(table)] or [f"{nothing(table)}\n"]
    return "\n".join([*rankings, *(f"{line}\n" for line in table.older)])


def _markdown_ranking(table: Rankings, rows: list[Row]) -> str:
    shown = _columns(rows, table.objectives)
    lines = [list(shown), ["---:" if name in _NUMBERS else "---" for name in shown]]
    lines += [[cell(row).replace("|", "\\|") for cell in shown.values()] for row in rows]
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    said = "".join(f"\n{line}\n" for line in (() if table.objectives else notes(rows)))
    return f"### {_title(table, rows)}\n\n{body}\n{said}"


def rankings_in_words(table: Rankings) -> Iterator[tuple[str, tuple[str, ...], tuple[tuple[str, ...], ...]]]:
    """For each ranking its title, the columns that are not empty, and the cells as they are shown."""
    for rows in _rankings(table):
        shown = _columns(rows, table.objectives)
        yield (
            _title(table, rows),
            tuple(shown),
            tuple(tuple(cell(row) for cell in shown.values()) for row in rows),
        )


def print_table(table: Rankings, console: Console, *, wide: bool = False) -> None:
    """One table for each ranking, as wide as the terminal or, with `wide`, as its columns; a line that says
    what to do when there is none.
    """
    if not table.rows:
        console.print(escape(nothing(table)))
    wanted = {each.header for each in table.objectives}
    for at, rows in enumerate(_rankings(table)):
        if at:
            console.print()
        columns = [
            tables.Column(
                name,
                tuple(map(cell, rows)),
                0 if name in wanted else _RANKS[name],
                is_number=name in _NUMBERS,
            )
            for name, cell in _columns(rows, table.objectives).items()
        ]
        styles = ["dim" if row["kind"] == "baseline" else "" for row in rows]
        tables.print_table(
            columns,
            console,
            title=_title(table, rows),
            styles=styles,
            wide=wide,
            rest="--wide or --json shows all",
        )
        for line in () if table.objectives else notes(rows):
            console.print(escape(line), highlight=False)
    for line in table.older:
        console.print(escape(line), highlight=False)


def front_in_words(table: Rankings) -> list[str]:
    """A Pareto front in lines: what it is of, and a line for each kernel with a figure for each objective."""
    if not table.rows:
        return [nothing(table)]
    found = []
    for rows in _rankings(table):
        found.append(_front(table, rows))
        cells = _columns(rows, table.objectives)
        us = next(cell for header, cell in cells.items() if header in ("us", "est. us"))
        for row in rows:
            shown = [
                f"{(us if each.name == 'latency' else cells[each.header])(row)} {each.unit}"
                for each in table.objectives
            ]
            found.append(f"{row['genome_id'] or 'baseline'}  {row['name']}  {', '.join(shown)}")
    return found


def _rankings(table: Rankings) -> Iterator[list[Row]]:
    for _, rows in groupby(table.as_dicts(), key=itemgetter(*RANKING)):
        yield list(rows)


def nothing(table: Rankings) -> str:
    """Why there is no row."""
    if table.has_replays:
        return "No kernel is stored for this, only searches on recorded spaces: add --replayed."
    if not sum(table.unknown.values()):
        return NOTHING
    said = f"None of {sum(table.unknown.values())} kernels has a figure for {_names(table)}."
    if not any(each.name == "energy" for each in table.objectives):
        return said
    return f"{said} On a GPU, `evoflash search --objective latency,energy` measures energy in its finals."


def _names(table: Rankings) -> str:
    *most, last = (each.name for each in table.objectives)
    return f"{', '.join(most)} and {last}" if most else last


def _title(table: Rankings, rows: list[Row]) -> str:
    """What is ranked, and of a Pareto front how many kernels it is the front of."""
    return f"{_front(table, rows)}\n{_ranking_title(rows)}" if table.objectives else _ranking_title(rows)


def _front(table: Rankings, rows: list[Row]) -> str:
    key = tuple(rows[0][name] for name in RANKING)
    without = f"; {n} more lack a figure" if (n := table.unknown.get(key, 0)) else ""
    return f"Pareto front of {_names(table)}: {len(rows)} of {table.known.get(key, 0)} kernels{without}"


def _ranking_title(rows: list[Row]) -> str:
    if rows[0]["basis"] == ARCHIVED:
        return f"{problem_and_name(rows[0]['problem'])} on {rows[0]['gpu']}: {_archived_run(rows)}"
    basis = Basis(rows[0]["basis"])
    models = sorted({row["model_version"] for row in rows if row["model_version"]})
    estimates = f"estimated by model {', '.join(models) or 'unknown'}, not measured"
    words = {
        Basis.MEASURED: "measured",
        Basis.REPLAYED: "replayed from a recording" + (f", {estimates}" if _is_estimated(rows) else ""),
        Basis.ESTIMATED: estimates,
    }
    return f"{problem_and_name(rows[0]['problem'])} on {rows[0]['gpu']}: {words[basis]}"


def _archived_run(rows: list[Row]) -> str:
    """Where and when the archive's kernel was measured."""
    known = archived_for(rows[0]["problem"], rows[0]["gpu"])
    return known.measured_on if known else ARCHIVED


def notes(rows: Sequence[Row]) -> list[str]:
    """What is to be known of a ranking of estimates: what was measured of its kernels, ties, the error of
    each family, the fastest kernel's first.
    """
    kernels = [row for row in rows if row["kind"] == "candidate"]
    if not kernels or kernels[0]["basis"] != Basis.ESTIMATED.value:
        return []
    problem, gpu = kernels[0]["problem"], kernels[0]["gpu"]
    ordered = sorted(kernels, key=lambda row: row["score_us"])
    models = dict.fromkeys((row["name"], row["model_version"]) for row in ordered)
    known, tied = archived_for(problem, gpu), ties([row["score_us"] for row in kernels], ordered[0]["name"])
    said = []
    for row in kernels if known is not None else ():
        if known is not None and row["genome_id"] == known.genome.id:
            off = percent_of(row["score_us"] / known.us)
            said.append(f"{known.genome.id} was measured: {known.time}; the model says {off}.")
    said += tied.in_words(" shown") if tied else ()
    return [*said, *(error_sentence(gpu, family, version) for family, version in models)]


def _is_estimated(rows: list[Row]) -> bool:
    return any(row["basis"] == Basis.ESTIMATED.value or row["model_version"] for row in rows)


# What a narrow terminal goes without first has the highest number; 0 is always shown.
_RANKS = {
    **{"#": 0, "kernel": 0, "us": 0, "est. us": 0, "rel L2": 0, "smem B": 0, "mJ": 0, "genome": 1},
    **{"database": 1, "likely us": 2, "speed-up": 2, "GB/s": 3, "TFLOPS": 3, "p10-p90": 4, "bound": 5},
    **{"regs": 6, "spills": 7, "timed": 8, "search": 9},
}
_NUMBERS = {
    *("#", "us", "est. us", "likely us", "p10-p90", "speed-up", "GB/s", "TFLOPS"),
    *("regs", "spills", "rel L2", "smem B", "mJ"),
}


def _columns(rows: list[Row], objectives: Sequence[Objective] = ()) -> dict[str, Callable[[Row], str]]:
    """Headers and how each cell reads; figures of an estimate carry a '~', what no row has is left out.

    Errors, shared memory and energy are shown where they are objectives.
    """
    estimated, headers = _is_estimated(rows), {each.header for each in objectives}
    mark = "~" if estimated else ""
    columns: dict[str, Callable[[Row], str]] = {
        "#": lambda row: str(row["rank"]),
        "kernel": lambda row: row["name"],
        "genome": lambda row: row["genome_id"] or row["kind"],
        "est. us" if estimated else "us": lambda row: _figure(row["score_us"], mark),
        "likely us": _likely,
        **{header: cell for header, cell in _OF_OBJECTIVES.items() if header in headers},
        "p10-p90": lambda row: _spread(row, mark),
        "speed-up": lambda row: _speedup(row, mark),
        "GB/s": lambda row: _figure(_gbps(row), mark),
        "TFLOPS": lambda row: _figure(row["tflops"], mark),
        "regs": lambda row: _count(row["registers"]),
        "spills": lambda row: _count(row["spill_bytes"]),
        "bound": lambda row: row["bound"],
        "timed": lambda row: row["protocol"],
        "search": lambda row: row["run"] and f"{row['strategy']} seed {row['seed']} run {row['run']}",
        "database": _database_cell(rows),
    }
    return {name: cell for name, cell in columns.items() if any(cell(row) for row in rows)}


def _database_cell(rows: list[Row]) -> Callable[[Row], str]:
    """Where a row is from, in few letters; empty where there is one database."""
    short = short_names(dict.fromkeys(label for row in rows for label in databases_of(row)))
    return lambda row: ", ".join(short[label] for label in databases_of(row))


_OF_OBJECTIVES: Mapping[str, Callable[[Row], str]] = {
    "rel L2": lambda row: "" if row["rel_l2"] is None else f"{row['rel_l2']:.1e}",
    "smem B": lambda row: _count(row["smem_bytes"]),
    "mJ": lambda row: _figure(row["energy_mj"], ""),
}


def _figure(number: float | None, mark: str) -> str:
    return "" if number is None else f"{mark}{four_digits(number)}"


def _likely(row: Row) -> str:
    """Between which times nine of ten such kernels are, where the row's is an estimate."""
    found = likely_us(row["name"], row["model_version"], row["score_us"])
    return "{:.3g}-{:.3g}".format(*found) if found else ""


def _gbps(row: Row) -> float | None:
    """Of a problem whose time its bytes bound; None of the others, and of another kernel's recorded space."""
    try:
        moved = parse_problem(row["problem"]).streamed_bytes
    except UsageError:
        return None
    return moved / row["score_us"] / 1e3 if moved and row["score_us"] else None


def _spread(row: Row, mark: str) -> str:
    if row["p10_us"] is None or row["p90_us"] is None or row["n"] == 1:  # an estimate has no spread
        return ""
    return f"{_figure(row['p10_us'], mark)}-{_figure(row['p90_us'], mark)}"


def _speedup(row: Row, mark: str) -> str:
    return "" if row["speedup"] is None else f"{mark}{row['speedup']:.2f}x {row['speedup_vs']}"


def _count(number: int | None) -> str:
    return "" if number is None else str(number)


def print_baselines(times: BaselineTimes, console: Console) -> None:
    """A table for each workload and protocol, then what each row is made of, then what has no row and why."""
    for workload, protocol, rows in times.rankings():
        tables.print_table(_baseline_columns(rows), console, title=f"{workload} on {times.gpu}: {protocol}")
        console.print()
    for row in times.rows:
        parts = ", ".join(f"{name} {value}" for name, value in row.environment.items())
        console.print(escape(f"{row.name:15}{parts}"), soft_wrap=True, highlight=False)
    for word, reasons in (("absent", times.absent), ("WRONG", times.wrong)):
        for name, reason in reasons.items():
            console.print(escape(f"{word:15}{name}: {reason}"), soft_wrap=True, highlight=False)


def _baseline_columns(rows: list[dict[str, Any]]) -> list[tables.Column]:
    def figures(header: str, name: str, form: str, rank: int) -> tables.Column:
        return tables.Column(
            header, tuple(format(row[name] or "", form if row[name] else "") for row in rows), rank
        )

    bandwidth = [figures("GB/s", "gbps", ".0f", 2)] if any(row["gbps"] for row in rows) else []
    return [
        tables.Column("baseline", tuple(row["name"] for row in rows), is_number=False),
        figures("us", "median_us", ".2f", 0),
        figures("x fastest", "over_fastest", ".2f", 1),
        *bandwidth,
        figures("TFLOPS", "tflops", ".1f", 2),
        figures("p10", "p10_us", ".2f", 3),
        figures("p90", "p90_us", ".2f", 4),
        figures("n", "n", "d", 6),
        figures("SM MHz", "sm_clock_mhz", "", 5),
    ]
