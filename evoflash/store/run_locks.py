"""Which process works on a run: a lock that ends with its process, however that ends. Touches no row.

Locks of a database file are here, those of a PostgreSQL server in session_locks.py.
"""

import errno
import os
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import sqlalchemy as sa

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
        """Give all locks back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
