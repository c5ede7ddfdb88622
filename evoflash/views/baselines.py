"""Shows the libraries' times as tables, one for each workload and protocol. Reads no store."""

from typing import Any

from rich.console import Console
from rich.markup import escape

from evoflash.app.baselines import BaselineTimes
from evoflash.views import tables


def print_tables(times: BaselineTimes, console: Console) -> None:
    """A table for each workload and protocol, then what each row is made of, then what has no row and why."""
    for workload, protocol, rows in times.rankings():
        tables.print_table(_columns(rows), console, title=f"{workload} on {times.gpu}: {protocol}")
        console.print()
    for row in times.rows:
        parts = ", ".join(f"{name} {value}" for name, value in row.environment.items())
        console.print(escape(f"{row.name:15}{parts}"), soft_wrap=True, highlight=False)
    for word, reasons in (("absent", times.absent), ("WRONG", times.wrong)):
        for name, reason in reasons.items():
            console.print(escape(f"{word:15}{name}: {reason}"), soft_wrap=True, highlight=False)


def _columns(rows: list[dict[str, Any]]) -> list[tables.Column]:
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
