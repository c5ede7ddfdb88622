"""Which process works on a run: a lock that ends with its process, however that ends. Touches no row."""

import errno
import os
from pathlib import Path


class RunLocks:
    """This process's locks on the runs of a database file.

    A lock is on one byte of a file beside the database: the system drops it when the process ends, also by
    kill -9. Databases that are no files have no such place; there every lock is granted.
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

    def close(self) -> None:
        """Give all locks back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
