"""The runs of a database as a table or JSON; reads no database."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console

from evoflash.commands.runs import cost
from evoflash.commands.tables import Column, print_table
from evoflash.store.standing import Standing
from evoflash.timing.gpu_factors import GpuFactor

# What a narrow terminal goes without first has the highest number; 0 is always shown.
_RANKS = {
    **{"run": 0, "name": 4, "problem": 3, "gpu": 5, "basis": 8, "search": 7},
    **{"evaluated": 1, "best us": 0, "state": 0, "began": 6},
    **{"GPU min": 9, "CPU min": 10, "price": 2},
}
_WRAPPED = {"name": 16, "problem": 22}  # characters that a line of them has at least
_NUMBERS = ("run", "evaluated", "best us", "GPU min", "CPU min", "price")


def as_dict(
    standing: Standing, price_per_hour: float | None = None, gpus: Sequence[GpuFactor] | None = None
) -> dict[str, Any]:
    """The run's fields beside one another, how it stands, what it took, and how fast its GPUs are where that
    was looked up.
    """
    fields = asdict(standing)
    run, _ = fields.pop("run"), fields.pop("cost")
    key = run.pop("key")
    took = cost.as_dict(standing.cost, price_per_hour)
    fast = {} if gpus is None else {"gpus": [each.as_dict() for each in gpus]}
    return {**run, **key, **fields, "state": state(standing), "left_s": standing.left_s, **took, **fast}


def as_json(
    standings: Sequence[Standing],
    price_per_hour: float | None = None,
    gpus: Sequence[Sequence[GpuFactor]] | None = None,
) -> str:
    """One object, {"runs": [...]}, newest first; `gpus` has each run's."""
    of_runs: Sequence[Sequence[GpuFactor] | None] = gpus or [None] * len(standings)
    runs = [as_dict(each, price_per_hour, fast) for each, fast in zip(standings, of_runs, strict=True)]
    return json.dumps({"runs": runs}, indent=2)


def state(standing: Standing) -> str:
    """`running`, `finished` (its budget is spent) or `stopped` (the same command continues it)."""
    if standing.process is not None:
        return "running"
    spent = standing.run.budget and standing.evaluated >= standing.run.budget
    return "finished" if spent else "stopped"


def best(standing: Standing) -> str:
    """The best time, with the mark of an estimate."""
    return "" if standing.best_us is None else f"{'~' * standing.is_estimate}{standing.best_us:.2f}"


def print_runs(standings: Sequence[Standing], console: Console, price_per_hour: float | None = None) -> None:
    """A row for each run, or a line that says what to do."""
    if not standings:
        console.print("No run is stored: run `evoflash search` first.")
        return
    cells = zip(*(_cells(standing, price_per_hour) for standing in standings), strict=True)
    columns = [
        Column(name, column, rank, is_number=name in _NUMBERS, wraps_at=_WRAPPED.get(name, 0))
        for (name, rank), column in zip(_RANKS.items(), cells, strict=True)
        if any(column)
    ]
    print_table(columns, console)


def _cells(standing: Standing, price_per_hour: float | None) -> tuple[str, ...]:
    run, key = standing.run, standing.run.key
    of = f"/{run.budget}" if run.budget else ""
    search = f"{key.strategy} seed {key.seed} no. {run.number}"
    began = run.created[:16].replace("T", " ")
    done = f"{standing.evaluated}{of}"
    what = (str(run.id), standing.name, key.problem, key.gpu, key.basis.value, search, done)
    return (*what, best(standing), state(standing), began, *_took(standing, price_per_hour))


def _took(standing: Standing, price_per_hour: float | None) -> tuple[str, str, str]:
    """Minutes of GPU and CPU, and the price; empty cells where they are not known."""
    if standing.cost is None:
        return "", "", ""
    price = "" if price_per_hour is None else f"{cost.money(standing.cost, price_per_hour):.2f}"
    return cost.minutes(standing.cost.gpu_s), cost.minutes(standing.cost.cpu_s), price
