"""Which session of a PostgreSQL server works on a run: advisory locks. Touches no row.

https://www.postgresql.org/docs/15/explicit-locking.html#ADVISORY-LOCKS
"""

import os
import socket

import sqlalchemy as sa

from evoflash.errors import StoreError
from evoflash.store.run_locks import Holder

_MOST_LETTERS = 63  # of an application's name, all that the server keeps
_BEGIN = "evoflash "
# A lock's two keys: the table of runs, so that schemas of one database do not meet, and the run.
_TAKE = sa.text("SELECT pg_try_advisory_lock(CAST(CAST('runs' AS regclass) AS oid)::int4, :number)")
_HOLDER = sa.text(
    "SELECT activity.application_name, activity.pid "
    "FROM pg_locks JOIN pg_stat_activity AS activity USING (pid) "
    "WHERE locktype = 'advisory' AND granted AND objsubid = 2 "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    "AND classid = CAST('runs' AS regclass) AND objid = :number"
)


class SessionLocks:
    """Locks on the runs of a PostgreSQL database, held by one session of this process.

    The server drops them when the session ends: at once where the process is killed, and after the
    keepalives of postgresql.py where its machine is gone. The store writes over the same session, so that
    nothing is written once a lock is lost.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._session: sa.Connection | None = None

    def take(self, number: int) -> bool:
        """Whether this process has the lock on run `number` now; False when another process has it.

        A lock that is taken in a transaction outlives it, and its rollback.
        """
        session = self.session()
        is_within = session.in_transaction()
        is_mine = bool(session.scalar(_TAKE, {"number": number}))
        if not is_within:
            session.rollback()
        return is_mine

    def holder(self, number: int) -> Holder | None:
        """The other process that works on the run; None where none does."""
        with self._engine.connect() as connection:
            found = connection.execute(_HOLDER, {"number": number}).first()
        return None if found is None or found[0] == application_name() else _holder(*found)

    def session(self) -> sa.Connection:
        """The session, begun on first use. StoreError where it was lost: a new one would have no locks."""
        if self._session is None:
            self._session = self._engine.connect()
        elif self._session.invalidated:
            raise StoreError(
                "the connection to the database was lost, and what was being searched is anybody's now: "
                "run the same command again, it continues."
            )
        return self._session

    def close(self) -> None:
        """Give all locks back: the session ends, because a pooled one would keep them."""
        session, self._session = self._session, None
        if session is not None:
            if not session.invalidated:
                session.detach()
            session.close()


def application_name() -> str:
    """What the server calls this process's sessions: the process and its machine."""
    return f"{_BEGIN}{os.getpid()} {socket.gethostname()}"[:_MOST_LETTERS]


def _holder(name: str, server_process: int) -> Holder:
    number, _, host = name.removeprefix(_BEGIN).partition(" ")
    if not name.startswith(_BEGIN) or not number.isdigit():  # somebody's own lock: the server's process
        return Holder(server_process, "the database's server")
    is_here = host == application_name().removeprefix(_BEGIN).partition(" ")[2]
    return Holder(int(number), "" if is_here else host)
