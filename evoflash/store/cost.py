"""What a run took: seconds of the GPU and of the CPU, added up over its commands. Times nothing itself."""

from dataclasses import dataclass

import sqlalchemy as sa

from evoflash.evaluation import Run
from evoflash.store import schema
from evoflash.store.database import Database
from evoflash.store.rows import Row

_RUN = schema.runs.c


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one command or of several."""

    gpu_s: float  # for which a search had the GPU, whether it computed or waited; 0 without one
    cpu_s: float  # of all cores together, worker processes and compilers included


def charge(database: Database, run: Run, spent: Cost) -> None:
    """Add to what the run took."""
    gpu_s, cpu_s = (sa.func.coalesce(column, 0.0) for column in (_RUN.gpu_s, _RUN.cpu_s))
    added = {"gpu_s": gpu_s + spent.gpu_s, "cpu_s": cpu_s + spent.cpu_s}
    charging = sa.update(schema.runs).where(_RUN.id == run.id).values(**added)
    database.write(lambda connection: connection.execute(charging))


def cost_of(row: Row) -> Cost | None:
    """From a run's row; None for a run of an evoflash that did not note it."""
    if row["gpu_s"] is None or row["cpu_s"] is None:
        return None
    return Cost(float(row["gpu_s"]), float(row["cpu_s"]))


def costs(database: Database, *ids: int) -> dict[int, Cost]:
    """By run, of those whose cost is known; of all runs where no ids are given."""
    wanted = [_RUN.id.in_(ids)] if ids else []
    chosen = sa.select(_RUN.id, _RUN.gpu_s, _RUN.cpu_s).where(*wanted)
    with database.reading() as connection:
        found = {row["id"]: cost_of(row) for row in connection.execute(chosen).mappings()}
    return {run: cost for run, cost in found.items() if cost is not None}
