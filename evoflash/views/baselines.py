"""Shows the libraries' times as JSON or as tables, one for each workload and protocol. Reads no store."""

import json
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.markup import escape

from evoflash.app.baselines import BaselineTimes
from evoflash.errors import UsageError
from evoflash.evaluation import Timing
from evoflash.gpu.baselines import NAMES
from evoflash.problem import parse_workload
from evoflash.views import tables


def parse_names(only: str) -> tuple[str, ...]:
    """The names in a comma-separated list, or all names where it is empty. UsageError for an unknown name."""
    asked = [name.strip() for name in only.split(",") if name.strip()]
    for name in asked:
        if name not in NAMES:
            raise UsageError(f"no baseline is called '{name}': use {', '.join(NAMES)}.")
    return tuple(name for name in NAMES if name in asked) or NAMES


def as_json(times: BaselineTimes) -> str:
    """One object: `baselines` has a row for each baseline, workload and protocol, fastest first."""
    rows = [row for _, _, rows in _rankings(times) for row in rows]
    head = {"problem": str(times.problem), "gpu": times.gpu}
    others = {"absent": dict(times.absent), "wrong": dict(times.wrong)}
    return json.dumps(head | {"baselines": rows} | others, indent=2)


def print_tables(times: BaselineTimes, console: Console) -> None:
    """A table for each workload and protocol, then what each row is made of, then what has no row and why."""
    for workload, protocol, rows in _rankings(times):
        tables.print_table(_columns(rows), console, title=f"{workload} on {times.gpu}: {protocol}")
        console.print()
    for row in times.rows:
        parts = ", ".join(f"{name} {value}" for name, value in row.environment.items())
        console.print(escape(f"{row.name:15}{parts}"), soft_wrap=True, highlight=False)
    for word, reasons in (("absent", times.absent), ("WRONG", times.wrong)):
        for name, reason in reasons.items():
            console.print(escape(f"{word:15}{name}: {reason}"), soft_wrap=True, highlight=False)


def _rankings(times: BaselineTimes) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Every workload with every protocol, and the rows that were timed so, fastest first."""
    timings = [(row, timing) for row in times.rows for timing in row.timings]
    for workload, protocol in dict.fromkeys((t.workload, t.protocol) for _, t in timings):
        here = [(row, t) for row, t in timings if (t.workload, t.protocol) == (workload, protocol)]
        best_us = min(t.median_us for _, t in here)
        here.sort(key=lambda pair: pair[1].median_us)
        yield (
            workload,
            protocol,
            [_row(row.name, t, best_us) | {"environment": dict(row.environment)} for row, t in here],
        )


def _row(name: str, timing: Timing, best_us: float) -> dict[str, Any]:
    return {
        "name": name,
        "workload": timing.workload,
        "protocol": timing.protocol,
        "median_us": timing.median_us,
        "over_fastest": timing.median_us / best_us,
        "tflops": parse_workload(timing.workload).reported_flops / timing.median_us / 1e6,
        "p10_us": timing.p10_us,
        "p90_us": timing.p90_us,
        "n": timing.n,
        "sm_clock_mhz": timing.sm_clock_mhz,
        "throttle": timing.throttle,
    }


def _columns(rows: list[dict[str, Any]]) -> list[tables.Column]:
    def figures(header: str, name: str, form: str, rank: int) -> tables.Column:
        return tables.Column(
            header, tuple(format(row[name] or "", form if row[name] else "") for row in rows), rank
        )

    return [
        tables.Column("baseline", tuple(row["name"] for row in rows), is_number=False),
        figures("us", "median_us", ".2f", 0),
        figures("x fastest", "over_fastest", ".2f", 1),
        figures("TFLOPS", "tflops", ".1f", 2),
        figures("p10", "p10_us", ".2f", 3),
        figures("p90", "p90_us", ".2f", 4),
        figures("n", "n", "d", 6),
        figures("SM MHz", "sm_clock_mhz", "", 5),
    ]
