"""Locks that say which process, or which session of a server, works on a run. Touches no row.

A process holds a lock on a file, which ends with it, however that ends. On PostgreSQL a session holds an
advisory lock (https://www.postgresql.org/docs/15/explicit-locking.html#ADVISORY-LOCKS).
"""

import errno
import os
import socket
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import sqlalchemy as sa

from evoflash.errors import StoreError

_FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux: type, whence, start, length, process


@dataclass(frozen=True, slots=True)
class Holder:
    """Another process that works on a run."""

    process: int
    host: str = ""  # the machine that it runs on; empty: this one


class RunLocks(Protocol):
    """This process's locks on the runs of one database."""

    def take(self, number: int) -> bool:
        """Whether this process has the lock on run `number` now; False when another process has it."""

    def holder(self, number: int) -> Holder | None:
        """The other process that works on the run; None where none does, or it cannot be told."""

    def session(self) -> "sa.Connection | None":
        """The connection that the locks end with, which must then write as well; None where there is none.

        StoreError where it was lost.
        """

    def close(self) -> None:
        """Give all locks back."""


class FileLocks:
    """Locks on the runs of a database file.

    A lock is on one byte of a file beside the database: the system drops it when the process ends, also by
    kill -9. A database without a file, in memory, is this process's alone; there every lock is granted.
    """

    def __init__(self, database: Path | None) -> None:
        self._path = None if database is None else Path(f"{database}-claims")
        self._descriptor: int | None = None

    def take(self, number: int) -> bool:
        """Whether this process has the lock on run `number` now; False when another process has it."""
        if self._path is None:
            return True
        import fcntl  # here: Windows has none, and can still read databases

        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        except OSError as error:
            # A file system without locks grants everything, as it always did.
            return error.errno not in (errno.EACCES, errno.EAGAIN)
        return True

    def holder(self, number: int) -> Holder | None:
        """The other process that works on the run; None where none does, or it cannot be told."""
        if self._path is None or sys.platform != "linux":
            return None
        import fcntl

        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0)
        try:
            with self._path.open("rb") as file:
                answer = fcntl.fcntl(file, fcntl.F_GETLK, asked)
        except OSError:  # there is no such file: nobody has ever taken a lock
            return None
        kind, _, _, _, process = struct.unpack(_FLOCK, answer)
        return None if kind == fcntl.F_UNLCK else Holder(int(process))

    def session(self) -> None:
        """None: these locks end with the process, whatever writes."""
        return

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


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
    keepalives of database.py where its machine is gone. The store writes over the same session, so that
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
