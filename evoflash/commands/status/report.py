"""A run in some lines, once or drawn again until it ends; reads the database and changes nothing."""

import json
import time
from collections.abc import Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from evoflash.commands.runs.cost import in_words
from evoflash.commands.runs.report import best, state
from evoflash.commands.terminal import wrapped
from evoflash.store.database import Database
from evoflash.store.standing import Standing, age_s, going_on, standings
from evoflash.store.store import Store
from evoflash.timing.gpu_factors import GpuFactor, factors
from evoflash.timing.gpu_factors import in_words as gpus_in_words

_PLAIN_EVERY_S = 10.0  # on a stream that is no terminal


def gpus_of(database: Database, standing: Standing) -> tuple[GpuFactor, ...]:
    """How fast the GPUs are that the run was timed on; nothing where nothing was timed beside an anchor."""
    mine = "SELECT environment_json FROM evaluations WHERE run_id = :run AND duplicate_of IS NULL"
    _, rows = Store(database).query(mine, {"run": standing.run.id})
    return factors(json.loads(text) for (text,) in rows)


def lines(
    standing: Standing, price_per_hour: float | None = None, gpus: Sequence[GpuFactor] = ()
) -> list[str]:
    """Which run it is, how far, its best kernel, what it took so far where that was noted, and how fast each
    of its GPUs is where it has several.
    """
    run, key = standing.run, standing.run.key
    name = f" '{standing.name}'" if standing.name else ""
    on = f" on {standing.host}" if standing.host else ""
    by = f", process {standing.process}{on}" if standing.process is not None else ""
    head = f"run {run.id}{name}: {key.problem} on {key.gpu}, {key.basis}, {key.strategy} seed {key.seed}"
    took = [f"  {words}" for words in [in_words(standing.cost, price_per_hour)] if words]
    fast = [f"  {words}" for words in gpus_in_words(gpus)]
    return [head, f"  {state(standing)}{by}: {_done(standing)}", f"  {_best(standing)}", *took, *fast]


def _done(standing: Standing) -> str:
    budget = standing.run.budget
    of = f" of {budget}" if budget else ""
    twins = f", {standing.duplicates} duplicates" if standing.duplicates else ""
    words = f"{standing.evaluated}{of} evaluated, {standing.correct} correct{twins}"
    if standing.process is None:
        return f"{words}; the newest {_duration(age_s(standing))} ago"
    rate = f"; {standing.per_s:.2g}/s" if standing.per_s else ""
    left = f", {_duration(standing.left_s)} left" if standing.left_s is not None else ""
    return f"{words}{rate}{left}"


def _best(standing: Standing) -> str:
    if standing.best_us is None:
        return "no correct kernel so far"
    mark = " ESTIMATED, not measured" if standing.is_estimate else ""
    return f"best {best(standing)} us{mark}, {standing.best_id}, {standing.since_best} evaluations ago"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(max(seconds, 0.0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def chosen(database: Database) -> list[Standing]:
    """The runs that are going on; where none is, the newest one."""
    return going_on(database) or standings(database)[:1]


def watch(
    database: Database, first: Sequence[Standing], console: Console, *, every_s: float
) -> list[Standing]:
    """Draw the runs until no process works on them any more; how they stood then."""
    ids = [standing.run.id for standing in first]
    found, said = list(first), 0.0
    with Live(console=console, auto_refresh=False) as live:
        while True:
            is_over = all(standing.process is None for standing in found)
            if console.is_terminal:
                live.update(Group(*(_drawn(each, console.width) for each in found)), refresh=True)
            elif is_over or time.monotonic() - said >= _PLAIN_EVERY_S:
                said = time.monotonic()
                for each in found:
                    console.print("\n".join(lines(each)), markup=False, highlight=False, soft_wrap=True)
            if is_over:
                return found
            time.sleep(every_s)
            found = standings(database, *ids)


def _drawn(standing: Standing, width: int) -> Group:
    text = Text(wrapped("\n".join(lines(standing)), width))
    if not standing.run.budget:
        return Group(text)
    bar = ProgressBar(total=standing.run.budget, completed=standing.evaluated, width=40)
    return Group(text, bar)
