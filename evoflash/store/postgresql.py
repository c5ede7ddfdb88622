"""How sessions of a PostgreSQL server are opened, and what only it understands. Reads and writes no row.

A server or a network that is gone is noticed in about a minute, on both sides: a search does not hang, and
what a machine that is gone was searching is free again.
"""

from typing import Any

import sqlalchemy as sa

from evoflash.store.session_locks import application_name

_DRIVERS = ("psycopg", "psycopg2")  # these take libpq's parameters
CONNECT_S = 10
_IDLE_S, _EVERY_S, _TIMES = 30, 10, 3  # keepalives
# https://www.postgresql.org/docs/15/libpq-connect.html#LIBPQ-PARAMKEYWORDS
_PATIENCE = {
    "connect_timeout": CONNECT_S,
    "keepalives_idle": _IDLE_S,
    "keepalives_interval": _EVERY_S,
    "keepalives_count": _TIMES,
    "tcp_user_timeout": 60_000,
}
_ONE_AT_A_TIME = 0x65766F666C617368  # "evoflash": the key of a lock, among those of other programs
_CONFLICTS = ("40001", "40P01")  # SQLSTATE of transactions that the server ended for another one's sake


def engine_options(url: sa.URL, *, read_only: bool) -> dict[str, Any]:
    """What an engine is made with; what the URL asks for itself comes first."""
    usual = {name: value for name, value in _PATIENCE.items() if name not in url.query}
    arguments = {**usual, "application_name": application_name()}
    return {
        "connect_args": arguments if url.get_driver_name() in _DRIVERS else {},
        "execution_options": {"postgresql_readonly": read_only},
        "pool_pre_ping": True,  # an idle connection may have been cut
    }


def set_up(raw: Any, *, lock_timeout_ms: int) -> None:
    """What holds for every transaction of a new connection."""
    settings = {
        "lock_timeout": lock_timeout_ms,
        "tcp_keepalives_idle": _IDLE_S,
        "tcp_keepalives_interval": _EVERY_S,
        "tcp_keepalives_count": _TIMES,
    }
    cursor = raw.cursor()
    for name, value in settings.items():
        cursor.execute(f"SET {name} = {value}")
    cursor.close()
    raw.commit()  # a rollback would take them back


def alone(connection: sa.Connection) -> None:
    """Until the transaction ends, no other process changes tables or views; waits for one that does."""
    connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ONE_AT_A_TIME})


def view_note(connection: sa.Connection, view: str) -> str | None:
    """What `note_view` left at the view; None where there is no view."""
    asked = sa.text("SELECT obj_description(to_regclass(:view), 'pg_class')")
    found: str | None = connection.scalar(asked, {"view": view})
    return found


def note_view(connection: sa.Connection, view: str, note: str) -> None:
    """Keep a word with the view: the server rewrites its text, which therefore cannot be compared."""
    connection.exec_driver_sql(f"COMMENT ON VIEW {view} IS '{note}'")


def is_conflict(error: Exception) -> bool:
    """Whether the same transaction may go through if it is begun again."""
    return getattr(getattr(error, "orig", None), "sqlstate", None) in _CONFLICTS
