"""A real PostgreSQL server for the tests that want one: on a socket in a folder of its own, gone at the end.

It listens on no port. The server refuses root, so there it runs as `nobody`.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError
from waiting import until

from evoflash.store.store import open_store

_USER = "evoflash"
_QUICK = ("-c", "fsync=off", "-c", "listen_addresses=", "-c", "max_connections=50")
MISSING = "needs a PostgreSQL server and its driver: apt install postgresql, pip install '.[postgres]'"


@dataclass
class Server:
    """A server and its databases."""

    folder: Path
    binaries: Path
    process: "subprocess.Popen[bytes] | None" = None
    made: int = field(default=0)

    def url(self, database: str) -> str:
        """Where the database is."""
        return f"postgresql://{_USER}@/{database}?host={self.folder}"

    def start(self) -> None:
        """Returns when it answers."""
        command = [str(self.binaries / "postgres"), "-D", str(self.folder / "data"), "-k", str(self.folder)]
        log = (self.folder / "log").open("ab")
        self.process = subprocess.Popen(_as_its_user([*command, *_QUICK]), stdout=log, stderr=log)
        log.close()
        until(self._answers, what="an answer of the PostgreSQL server")

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "log").read_text()
        try:
            self.run("SELECT 1")
        except OperationalError:
            return False
        return True

    def kill(self) -> None:
        """It goes away at once; what was committed is there when it starts again."""
        if self.process is not None:
            self.process.send_signal(3)  # SIGQUIT: without waiting for anyone
            self.process.wait()
            self.process = None

    def run(self, sql: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """One statement, outside of a transaction."""
        engine = sa.create_engine(self.url(database), isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with engine.connect() as connection:
            found = connection.exec_driver_sql(sql)
            return [tuple(row) for row in found] if found.returns_rows else []

    def database(self, template: str = "template1") -> str:
        """The URL of a new database, a copy of the template; empty by default."""
        self.made += 1
        self.run(f"CREATE DATABASE evoflash{self.made} TEMPLATE {template}")
        return self.url(f"evoflash{self.made}")

    def store(self) -> str:
        """The URL of a new store without runs: made once, copied from then on."""
        if not self.run("SELECT 1 FROM pg_database WHERE datname = 'fresh'"):
            self.run("CREATE DATABASE fresh")
            open_store(self.url("fresh")).close()
        return self.database("fresh")


@contextmanager
def running() -> Iterator[Server]:
    """A server of its own for the block; the test is skipped where none is installed."""
    binaries = _binaries()
    if binaries is None:
        pytest.skip(MISSING)
    pytest.importorskip("psycopg", reason=MISSING)
    folder = Path(tempfile.mkdtemp(prefix="evoflash-postgres-"))
    if os.getuid() == 0:
        shutil.chown(folder, "nobody")
    server = Server(folder, binaries)
    try:
        made = [str(binaries / "initdb"), "-D", str(folder / "data"), "-U", _USER, "-A", "trust", "--no-sync"]
        subprocess.run(_as_its_user(made), check=True, capture_output=True)
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _binaries() -> Path | None:
    """Where initdb and postgres are: on the PATH, or where Debian puts the newest."""
    known = [Path(found).resolve().parent for found in [shutil.which("initdb")] if found]
    known += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((each for each in known if (each / "initdb").exists() and (each / "postgres").exists()), None)


def _as_its_user(command: Sequence[str]) -> list[str]:
    """As nobody where we are root; it ends with this process, however that ends, where setpriv is."""
    if os.getuid() == 0:
        user = ("--reuid=nobody", "--regid=nogroup", "--clear-groups")
        return ["setpriv", *user, "--pdeathsig", "SIGQUIT", *command]
    return ["setpriv", "--pdeathsig", "SIGQUIT", *command] if shutil.which("setpriv") else list(command)
