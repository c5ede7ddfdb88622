"""Keeps and reads what a run asked of a language model and what it was answered. Asks no model."""

import sqlalchemy as sa

from evoflash.evaluation import Run
from evoflash.exchange import Exchange
from evoflash.store import rows, schema
from evoflash.store.database import Database

_SAID = schema.exchanges.c


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
