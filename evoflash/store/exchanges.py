"""Keeps and reads what a run asked of a language model and what it was answered. Asks no model."""

from collections.abc import Sequence

import sqlalchemy as sa

from evoflash.evaluation import Run
from evoflash.model_exchange import MODEL_EDIT, VALID, Exchange, KernelOrigin
from evoflash.store import rows, schema
from evoflash.store.database import Database
from evoflash.store.store import Store

_SAID, _LINE = schema.exchanges.c, schema.lineage.c


def keep_exchange(database: Database, run: Run, exchange: Exchange) -> None:
    """Store one behind those that the run has."""

    def work(connection: sa.Connection) -> None:
        mine = sa.select(sa.func.count()).select_from(schema.exchanges).where(_SAID.run_id == run.id)
        row = rows.exchange_row(run, exchange, connection.scalar(mine) or 0)
        connection.execute(sa.insert(schema.exchanges).values(**row))

    database.write(work)


def read_exchanges(database: Database, run: Run) -> list[Exchange]:
    """Those of the run, oldest first."""
    chosen = sa.select(schema.exchanges).where(_SAID.run_id == run.id).order_by(_SAID.position)
    with database.reading() as connection:
        return [rows.exchange_of(row) for row in connection.execute(chosen).mappings()]


def read_origins(store: Store, genome_id: str) -> tuple[KernelOrigin, ...]:
    """The request that it is from, of each run in which a language model proposed it, newest first."""
    mine = sa.select(_LINE.run_id).where(_LINE.genome_id == genome_id, _LINE.operator == MODEL_EDIT)
    with store.database.reading() as connection:
        asked = set(connection.scalars(mine))
    found = []
    for run in (run for run in store.runs() if run.id in asked):
        numbers = requests(read_exchanges(store.database, run))
        if genome_id in numbers:
            found.append(KernelOrigin(run.key.llm, run.id, numbers[genome_id]))
    return tuple(found)


def requests(exchanges: Sequence[Exchange]) -> dict[str, int]:
    """For each kernel that was proposed in them the number of the first one that has it, from 1 on."""
    numbered = list(enumerate(exchanges, start=1))
    return {
        edit.child: number
        for number, each in reversed(numbered)
        for edit in each.edits
        if edit.verdict == VALID
    }
