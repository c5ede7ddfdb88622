"""Lists, follows, renames, merges, deletes and checks the runs of a database, with what they took."""

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from evoflash.errors import NoKernelError, UsageError, without_passwords
from evoflash.evaluation import Run
from evoflash.gpu.timing.relative import GpuFactor, factors, in_words
from evoflash.store import run_edits
from evoflash.store.database import Database, is_there, open_database
from evoflash.store.integrity import Health, check_database
from evoflash.store.standing import ComputeCost, RunStatus, going_on, standings
from evoflash.store.store import Store


def parse_price(price_per_hour: float | None) -> float | None:
    """The price of an hour of a GPU, as it was given. UsageError for a number that is no price."""
    if price_per_hour is not None and not 0 <= price_per_hour < math.inf:
        raise UsageError(f"--price-per-hour {price_per_hour:g}: give what an hour of the GPU costs, as 3.50.")
    return price_per_hour


def money(cost: ComputeCost, price_per_hour: float) -> float:
    """What the GPU cost, in the price's currency."""
    return cost.gpu_s / 3600 * price_per_hour


def cost_as_dict(cost: ComputeCost | None, price_per_hour: float | None = None) -> dict[str, float | None]:
    """`gpu_minutes` and `cpu_minutes` (None where they were not noted), and with a price it and the money."""
    known = {
        "gpu_minutes": None if cost is None else cost.gpu_s / 60,
        "cpu_minutes": None if cost is None else cost.cpu_s / 60,
    }
    if price_per_hour is None:
        return known
    paid = None if cost is None else money(cost, price_per_hour)
    return known | {"price_per_hour": price_per_hour, "price": paid}


def state(standing: RunStatus) -> str:
    """`running`, `finished` (its budget is spent) or `stopped` (the same command continues it)."""
    if standing.process is not None:
        return "running"
    spent = standing.run.budget and standing.evaluated >= standing.run.budget
    return "finished" if spent else "stopped"


def age_s(standing: RunStatus) -> float:
    """Seconds since the newest outcome was stored."""
    return (datetime.now(UTC) - datetime.fromisoformat(standing.newest)).total_seconds()


@dataclass(frozen=True, slots=True)
class RunList:
    """Runs as they stand, newest first, and what an hour of their GPU costs."""

    runs: tuple[RunStatus, ...]
    price_per_hour: float | None = None
    gpus: tuple[tuple[GpuFactor, ...], ...] | None = None  # how fast each run's are, where it was looked up

    @property
    def gpus_say(self) -> tuple[list[str], ...]:
        """For each run a line for each of its GPUs where it has several."""
        return tuple(map(in_words, self.gpus or [()] * len(self.runs)))

    def as_dict(self) -> dict[str, Any]:
        """`runs`: each run's fields beside one another, how it stands, what it took, its GPUs."""
        gpus = self.gpus or [None] * len(self.runs)
        return {"runs": [self._of_run(*each) for each in zip(self.runs, gpus, strict=True)]}

    def _of_run(self, standing: RunStatus, gpus: Sequence[GpuFactor] | None) -> dict[str, Any]:
        run, fields = standing.run.as_dict(), asdict(standing)
        run |= run.pop("key") | {"name": standing.run.name}
        del fields["run"], fields["cost"]
        took = cost_as_dict(standing.cost, self.price_per_hour)
        fast = {} if gpus is None else {"gpus": [each.as_dict() for each in gpus]}
        return {**run, **fields, "state": state(standing), "left_s": standing.left_s, **took, **fast}


@contextmanager
def closing_database(target: str, *, read_only: bool = False) -> Iterator[Database]:
    """A database, closed at the end."""
    database = open_database(target, read_only=read_only)
    try:
        yield database
    finally:
        database.close()


def list_runs(db: str, price_per_hour: float | None = None) -> RunList:
    """All of them. UsageError for a price that is none."""
    price = parse_price(price_per_hour)
    with closing_database(db, read_only=True) as database:
        return RunList(tuple(standings(database)), price)


def current_runs(db: str, price_per_hour: float | None = None) -> RunList:
    """The runs that are going on, and how fast their GPUs are; where none is going on, the newest run."""
    price = parse_price(price_per_hour)
    _check_searched(db)
    with closing_database(db, read_only=True) as database:
        found = tuple(_current_runs(database))
        return RunList(found, price, tuple(_gpus_of(database, each.run) for each in found))


def _check_searched(db: str) -> None:
    if not is_there(db):
        raise NoKernelError(
            f"nothing was searched yet, there is no database at {without_passwords(db)}: run `evoflash "
            "search`, or name another with --db."
        )


def _current_runs(database: Database) -> list[RunStatus]:
    found = going_on(database) or standings(database)[:1]
    if not found:
        raise NoKernelError("nothing was searched in this database yet: run `evoflash search`.")
    return found


def _gpus_of(database: Database, run: Run) -> tuple[GpuFactor, ...]:
    """Nothing where nothing was timed beside an anchor."""
    mine = "SELECT environment_json FROM evaluations WHERE run_id = :run AND duplicate_of IS NULL"
    _, rows = Store(database).query(mine, {"run": run.id})
    return factors(json.loads(text) for (text,) in rows)


def follow(db: str, *, every_s: float) -> Iterator[list[RunStatus]]:
    """How the runs that are going on stand, again and again until no process works on them any more."""
    _check_searched(db)
    with closing_database(db, read_only=True) as database:
        found = _current_runs(database)
        ids = [standing.run.id for standing in found]
        yield found
        while any(standing.process is not None for standing in found):
            time.sleep(every_s)
            found = standings(database, *ids)
            yield found


def rename(db: str, wanted: str, name: str) -> int:
    """Give a run, by its number or name, a name; its number."""
    _check_exists(db)
    with closing_database(db) as database:
        found = run_edits.find(database, wanted)
        run_edits.rename(database, found, name)
    return found.id


def merge(db: str, source: str) -> tuple[int, int]:
    """Bring in the runs of another database; how many runs and outcomes were new."""
    with closing_database(source, read_only=True) as there, closing_database(db) as database:
        if there.label == database.label:
            raise UsageError("that is the same database: give the one to take runs from, and --db the other.")
        return run_edits.merge(database, there)


def delete(db: str, wanted: str, *, is_sure: Callable[[str], bool]) -> tuple[str, int] | None:
    """Delete a run where `is_sure` says so of its description; that, and how many outcomes are gone."""
    _check_exists(db)
    with closing_database(db) as database:
        found = run_edits.find(database, wanted)
        key = found.key
        words = f"run {found.id} ({key.problem} on {key.gpu}, {key.basis}, {key.search_name} seed {key.seed})"
        return (words, run_edits.delete(database, found)) if is_sure(words) else None


def _check_exists(target: str) -> None:
    """StoreError where there is no database yet: what edits runs makes none."""
    with closing_database(target, read_only=True):
        pass


def check_rows(db: str) -> tuple[str, Health]:
    """Whether every row is whole, and what the database is called."""
    with closing_database(db, read_only=True) as database:
        return database.label, check_database(database)
