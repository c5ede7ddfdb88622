"""Runs the migrations in db/versions on a connection that evoflash.store.database opened; opens none itself.

A new revision: copy the newest file in versions/, then raise HEAD in evoflash/store/schema.py. The tests
compare the migrated schema with evoflash.store.schema and open a database of every older revision.
"""

from typing import Any

from alembic import context

from evoflash.store.schema import VERSION_TABLE, metadata


def _is_ours(name: str | None, kind: str, _parents: Any) -> bool:
    # An Optuna study may live in the same file: its tables are none of our business.
    return kind != "table" or name in metadata.tables


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    include_name=_is_ours,
    render_as_batch=True,  # SQLite alters a table by rebuilding it
)
with context.begin_transaction():
    context.run_migrations()
