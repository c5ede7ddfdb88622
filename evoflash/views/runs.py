"""Shows a database's runs as a table or JSON, and one run in some lines. Changes nothing.

`evoflash watch` draws these lines again until the run ends.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from evoflash.app import words as cost
from evoflash.app.words import best, in_words, state
from evoflash.gpu.timing.relative import GpuFactor, factors
from evoflash.gpu.timing.relative import in_words as gpus_in_words
from evoflash.store.database import Database
from evoflash.store.standing import RunStatus, age_s, going_on, standings
from evoflash.store.store import Store
from evoflash.views.tables import Column, print_table
from evoflash.views.terminal import wrap

# What a narrow terminal goes without first has the highest number; 0 is always shown.
_RANKS = {
    **{"run": 0, "name": 4, "problem": 3, "gpu": 5, "basis": 8, "search": 7},
    **{"evaluated": 1, "best us": 0, "state": 0, "began": 6},
    **{"GPU min": 9, "CPU min": 10, "price": 2},
}
_WRAPPED = {"name": 16, "problem": 22}  # characters that a line of them has at least
_NUMBERS = ("run", "evaluated", "best us", "GPU min", "CPU min", "price")


def as_dict(
    standing: RunStatus, price_per_hour: float | None = None, gpus: Sequence[GpuFactor] | None = None
) -> dict[str, Any]:
    """The run's fields beside one another, how it stands, what it took, and how fast its GPUs are where that
    was looked up.
    """
    run, fields = standing.run.as_dict(), asdict(standing)
    run |= run.pop("key") | {"name": standing.run.name}
    del fields["run"], fields["cost"]
    took = cost.as_dict(standing.cost, price_per_hour)
    fast = {} if gpus is None else {"gpus": [each.as_dict() for each in gpus]}
    return {**run, **fields, "state": state(standing), "left_s": standing.left_s, **took, **fast}


def as_json(
    standings: Sequence[RunStatus],
    price_per_hour: float | None = None,
    gpus: Sequence[Sequence[GpuFactor]] | None = None,
) -> str:
    """One object, {"runs": [...]}, newest first; `gpus` has each run's."""
    of_runs: Sequence[Sequence[GpuFactor] | None] = gpus or [None] * len(standings)
    runs = [as_dict(each, price_per_hour, fast) for each, fast in zip(standings, of_runs, strict=True)]
    return json.dumps({"runs": runs}, indent=2)


def print_runs(standings: Sequence[RunStatus], console: Console, price_per_hour: float | None = None) -> None:
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


def _cells(standing: RunStatus, price_per_hour: float | None) -> tuple[str, ...]:
    run, key = standing.run, standing.run.key
    of = f"/{run.budget}" if run.budget else ""
    search = f"{key.search_name} seed {key.seed} no. {run.number}"
    began = run.created[:16].replace("T", " ")
    done = f"{standing.evaluated}{of}"
    what = (str(run.id), run.name, key.problem, key.gpu, key.basis.value, search, done)
    return (*what, best(standing), state(standing), began, *_took(standing, price_per_hour))


def _took(standing: RunStatus, price_per_hour: float | None) -> tuple[str, str, str]:
    """Minutes of GPU and CPU, and the price; empty cells where they are not known."""
    if standing.cost is None:
        return "", "", ""
    price = "" if price_per_hour is None else f"{cost.money(standing.cost, price_per_hour):.2f}"
    return cost.minutes(standing.cost.gpu_s), cost.minutes(standing.cost.cpu_s), price


_PLAIN_EVERY_S = 10.0  # on a stream that is no terminal


def gpus_of(database: Database, standing: RunStatus) -> tuple[GpuFactor, ...]:
    """How fast the GPUs are that the run was timed on; nothing where nothing was timed beside an anchor."""
    mine = "SELECT environment_json FROM evaluations WHERE run_id = :run AND duplicate_of IS NULL"
    _, rows = Store(database).query(mine, {"run": standing.run.id})
    return factors(json.loads(text) for (text,) in rows)


def lines(
    standing: RunStatus, price_per_hour: float | None = None, gpus: Sequence[GpuFactor] = ()
) -> list[str]:
    """Which run it is, how far, its best kernel, what it took so far where that was noted, and how fast each
    of its GPUs is where it has several.
    """
    run, key = standing.run, standing.run.key
    name = f" '{run.name}'" if run.name else ""
    on = f" on {standing.host}" if standing.host else ""
    by = f", process {standing.process}{on}" if standing.process is not None else ""
    head = f"run {run.id}{name}: {key.problem} on {key.gpu}, {key.basis}, {key.search_name} seed {key.seed}"
    took = [f"  {words}" for words in [in_words(standing.cost, price_per_hour)] if words]
    fast = [f"  {words}" for words in gpus_in_words(gpus)]
    return [
        head,
        f"  {state(standing)}{by}: {_progress_text(standing)}",
        f"  {_best(standing)}",
        *took,
        *fast,
    ]


def _progress_text(standing: RunStatus) -> str:
    budget = standing.run.budget
    of = f" of {budget}" if budget else ""
    twins = f", {standing.duplicates} duplicates" if standing.duplicates else ""
    words = f"{standing.evaluated}{of} evaluated, {standing.correct} correct{twins}"
    if standing.process is None:
        return f"{words}; the newest {_duration(age_s(standing))} ago"
    rate = f"; {standing.per_s:.2g}/s" if standing.per_s else ""
    left = f", {_duration(standing.left_s)} left" if standing.left_s is not None else ""
    return f"{words}{rate}{left}"


def _best(standing: RunStatus) -> str:
    if standing.best_us is None:
        return "no correct kernel so far"
    mark = " ESTIMATED, not measured" if standing.is_estimate else ""
    return f"best {best(standing)} us{mark}, {standing.best_id}, {standing.since_best} evaluations ago"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(max(seconds, 0.0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def active_runs(database: Database) -> list[RunStatus]:
    """The runs that are going on; where none is, the newest one."""
    return going_on(database) or standings(database)[:1]


def watch(
    database: Database, first: Sequence[RunStatus], console: Console, *, every_s: float
) -> list[RunStatus]:
    """Draw the runs until no process works on them any more; how they stood then."""
    ids = [standing.run.id for standing in first]
    found, said = list(first), 0.0
    with Live(console=console, auto_refresh=False) as live:
        while True:
            is_over = all(standing.process is None for standing in found)
            if console.is_terminal:
                live.update(Group(*(_draw_run(each, console.width) for each in found)), refresh=True)
            elif is_over or time.monotonic() - said >= _PLAIN_EVERY_S:
                said = time.monotonic()
                for each in found:
                    console.print("\n".join(lines(each)), markup=False, highlight=False, soft_wrap=True)
            if is_over:
                return found
            time.sleep(every_s)
            found = standings(database, *ids)


def _draw_run(standing: RunStatus, width: int) -> Group:
    text = Text(wrap("\n".join(lines(standing)), width))
    if not standing.run.budget:
        return Group(text)
    bar = ProgressBar(total=standing.run.budget, completed=standing.evaluated, width=40)
    return Group(text, bar)
