"""How far the runs of a database are, how fast, what they took and who works on them. Ranks no kernel.

What a run took are seconds of the GPU and of the CPU, added up over its commands. Times nothing itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa

from evoflash.evaluation import Run, Status
from evoflash.store import rows, schema
from evoflash.store import store as queries
from evoflash.store.database import Database
from evoflash.store.locks import Holder
from evoflash.store.rows import Row

_RUN = schema.runs.c


@dataclass(frozen=True, slots=True)
class ComputeCost:
    """Of one command or of several."""

    gpu_s: float  # for which a search had the GPU, whether it computed or waited; 0 without one
    cpu_s: float  # of all cores together, worker processes and compilers included


def charge(database: Database, run: Run, spent: ComputeCost) -> None:
    gpu_s, cpu_s = (sa.func.coalesce(column, 0.0) for column in (_RUN.gpu_s, _RUN.cpu_s))
    added = {"gpu_s": gpu_s + spent.gpu_s, "cpu_s": cpu_s + spent.cpu_s}
    charging = sa.update(schema.runs).where(_RUN.id == run.id).values(**added)
    database.write(lambda connection: connection.execute(charging))


def cost_of(row: Row) -> ComputeCost | None:
    """From a run's row; None for a run of an evoflash that did not note it."""
    if row["gpu_s"] is None or row["cpu_s"] is None:
        return None
    return ComputeCost(float(row["gpu_s"]), float(row["cpu_s"]))


def costs(database: Database, *ids: int) -> dict[int, ComputeCost]:
    """By run, of those whose cost is known; of all runs where no ids are given."""
    wanted = [_RUN.id.in_(ids)] if ids else []
    chosen = sa.select(_RUN.id, _RUN.gpu_s, _RUN.cpu_s).where(*wanted)
    with database.reading() as connection:
        found = {row["id"]: cost_of(row) for row in connection.execute(chosen).mappings()}
    return {run: cost for run, cost in found.items() if cost is not None}


RECENT = 60  # evaluations that the rate is taken over


@dataclass(frozen=True, slots=True)
class RunStatus:
    """One run as it stands. Baselines are not counted."""

    run: Run
    process: int | None  # another one that works on it; None where none does, or it cannot be told
    host: str  # the machine of that process; empty: this one
    evaluated: int  # genomes that count against the budget
    correct: int
    duplicates: int
    best_us: float | None
    best_id: str
    is_estimate: bool  # the best time is a model's
    since_best: int  # genomes evaluated after the best one
    newest: str  # when the newest outcome was stored (UTC, ISO 8601); when the run began if there is none
    per_s: float | None  # genomes a second over the newest ones; None where too few are known
    cost: ComputeCost | None  # None where it was not noted

    @property
    def left_s(self) -> float | None:
        """Seconds to the budget at that rate or to the end of the time limit, whichever comes first.

        None where neither is known.
        """
        found = []
        if self.per_s and self.run.budget:
            found.append((self.run.budget - self.evaluated) / self.per_s)
        if self.run.ends:
            found.append((datetime.fromisoformat(self.run.ends) - datetime.now(UTC)).total_seconds())
        return max(0.0, min(found)) if found else None


def standings(database: Database, *ids: int) -> list[RunStatus]:
    """The runs with these ids, or all of them; newest first."""
    wanted = [schema.runs.c.id.in_(ids)] if ids else []
    with database.reading() as connection:
        found = list(connection.execute(queries.newest_runs().where(*wanted)).mappings())
        return [_standing(connection, row, database.run_locks.holder(row["id"])) for row in found]


def _standing(connection: sa.Connection, row: Row, holder: Holder | None) -> RunStatus:
    found = schema.evaluations.c
    mine = (found.run_id == row["id"]) & (found.kind == "candidate")
    candidates = list(
        connection.execute(sa.select(schema.evaluations).where(mine).order_by(found.id)).mappings()
    )
    own = list({each["genome_id"]: each for each in candidates if each["duplicate_of"] is None}.values())
    correct = [each for each in own if each["status"] == Status.CORRECT]
    timed = [each for each in correct if each["score_us"] and not each["censored"]]
    best = min(timed, key=lambda each: each["score_us"], default=None)
    return RunStatus(
        run=rows.run_of(row),
        process=holder.process if holder else None,
        host=holder.host if holder else "",
        evaluated=len(own),
        correct=len(correct),
        duplicates=len(candidates) - len(own),
        best_us=best["score_us"] if best else None,
        best_id=best["genome_id"] if best else "",
        is_estimate=bool(best and best["model_version"]),
        since_best=sum(each["id"] > best["id"] for each in own) if best else len(own),
        newest=candidates[-1]["created"] if candidates else row["created"],
        per_s=_rate(own[-RECENT:]),
        cost=cost_of(row),
    )


def _rate(newest: Sequence[Row]) -> float | None:
    """Genomes a second from the first to the last of these; stored times are whole seconds."""
    if len(newest) < 2:
        return None
    first, last = (datetime.fromisoformat(newest[at]["created"]) for at in (0, -1))
    return (len(newest) - 1) / max((last - first).total_seconds(), 1.0)
