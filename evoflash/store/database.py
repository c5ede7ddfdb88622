"""Opens and upgrades the database, and makes transactions. Knows no record, no genome and no search.

SQLite by default, any SQLAlchemy URL otherwise. What only SQLite or only PostgreSQL understands stands behind
a dialect check. What a database says when it refuses becomes one line that says what to do.
"""

import hashlib
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from os.path import expanduser
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError, OperationalError, SQLAlchemyError

from evoflash.errors import StoreError, UsageError, without_passwords
from evoflash.extras import install
from evoflash.paths import DB, shipped_folder
from evoflash.store.locks import FileLocks, RunLocks, SessionLocks, application_name
from evoflash.store.rows import DamagedRowError
from evoflash.store.schema import HEAD, VERSION_TABLE, leaderboard_sql

# What the database says (lower case), and what to tell the user; the first that fits.
_AGAIN = (
    "check that the server runs and can be reached, then run the same command again: what was stored stays"
)
_ADVICE = (
    ("not a database", "is not a database: name another with --db, or move the file away"),
    ("malformed", "is damaged: copy it, try `sqlite3 FILE .recover`, or name another with --db"),
    *(
        (words, "lacks a table: put a copy of the database in its place, or name another with --db")
        for words in ("no such table", 'relation "')
    ),
    *(
        (words, "lacks a column: put a copy of the database in its place, or name another with --db")
        for words in ("no such column", 'column "')
    ),
    *(
        (words, "is locked by another process: wait for it to end, then run the command again")
        for words in ("locked", "lock timeout")
    ),
    *(
        (words, "cannot grow, the disk is full: free some space and run the same command again")
        for words in ("no space left", "is full")
    ),
    ("disk i/o", "cannot be written, the disk refuses: free some space and run the same command again"),
    *(
        (words, "cannot be written: make it and its folder writable, or name another with --db")
        for words in ("readonly", "read-only")
    ),
    ("unable to open", "cannot be opened: check the folder and its permissions, or name another with --db"),
    *(
        (words, "does not let you in: check user and password (a password can stand in ~/.pgpass)")
        for words in ("password authentication failed", "no password supplied", "no pg_hba.conf entry")
    ),
    ('role "', "does not know this user: create it with `createuser`, or name another in the URL"),
    *(
        (words, "has no room for another connection: end a search, or raise max_connections of the server")
        for words in ("too many clients", "too many connections", "connection slots are reserved")
    ),
    *(
        (words, "does not let this user do that: ask its owner to GRANT it")
        for words in ("permission denied", "must be owner")
    ),
    *(
        (words, f"cannot be reached: {_AGAIN}")
        for words in (
            *("connection refused", "failed to resolve", "connection timeout", "no such file or directory"),
            *("is the server running", "starting up", "shutting down", "recovery mode"),
        )
    ),
    ('database "', "does not exist: create it with `createdb`, or name another in the URL"),
    *(
        (words, f"has ended the connection: {_AGAIN}")
        for words in (
            *("terminating connection", "server closed the connection", "connection is lost"),
            *("connection is closed", "could not receive data", "consuming input failed", "ssl syscall"),
            *("connection reset", "connection timed out", "the connection is bad"),
        )
    ),
)


def explain(label: str, error: Exception) -> str:
    """What is wrong with the database `label`, and what to do about it."""
    said = _driver_message(error)
    for words, advice in _ADVICE:
        if words in said.lower():
            return f"{label} {advice} ({said})."
    return f"{label} cannot be used ({said}): check it, or name another with --db."


def _driver_message(error: Exception) -> str:
    """The first line of what the driver said; of attempts at several addresses, that of the first one."""
    lines = [line.strip(" -") for line in str(getattr(error, "orig", None) or error).splitlines()]
    if not lines:
        return type(error).__name__
    several = len(lines) > 1 and lines[0].startswith("Multiple connection attempts failed")
    return lines[1] if several else lines[0].removesuffix(".")


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


# leaves an unknown ~user as it is; Path raises


BUSY_TIMEOUT_MS = 30_000
_TRY_MS = 500  # SQLite hears no Ctrl-C while it waits for a lock
_VIEW = "leaderboard"
_TRIES = 5  # of a transaction that met another one
_SNAPSHOT = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Database:
    """An open database; every error that leaves it is a StoreError of one line."""

    engine: sa.Engine
    label: str  # the path, or the URL without its password
    run_locks: RunLocks  # which runs are this process's
    keeps: bool = True  # of a dry run False: what is written is rolled back

    def close(self) -> None:
        """Give the connections and the locks on runs back; a database can be closed twice."""
        self.run_locks.close()
        self.engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """One consistent snapshot; it never waits for a writer."""
        options = _SNAPSHOT if self.engine.dialect.name == "postgresql" else {}
        with _translate_errors(self.label), self.engine.connect().execution_options(**options) as connection:
            yield connection

    def write(self, work: Callable[[sa.Connection], T]) -> T:
        """Run `work` in one transaction: all of it is stored, or none. `work` may be called several times."""
        with _translate_errors(self.label):
            for _ in range(_TRIES - 1):
                try:
                    return self._transact(work)
                except IntegrityError:
                    # On PostgreSQL another process may insert the same row between our look and our insert,
                    continue
                except OperationalError as error:  # or wait for us while we wait for it.
                    if not is_conflict(error):
                        raise
            return self._transact(work)

    def _transact(self, work: Callable[[sa.Connection], T]) -> T:
        with self._writing() as connection, connection.begin() as transaction:
            done = work(connection)
            if not self.keeps:
                transaction.rollback()
            return done

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        session = self.run_locks.session()
        if session is not None:
            yield session
            return
        with self.engine.connect().execution_options(writes=True) as connection:
            yield connection


def is_there(target: str) -> bool:
    """Whether there may be a database: a file that exists, or any URL."""
    return "://" in target or Path(expanduser(target)).exists()


@contextmanager
def trial_copy(target: str) -> Iterator[str]:
    """A database with the same rows, in which a dry run may write; it is gone at the end. UsageError for one
    that is no file.
    """
    file = _sqlite_file(target)
    if file is None:
        raise UsageError(
            f"a dry run works on a copy, and {label_of(target)} is no file to copy: name another --db."
        )
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / file.name
        if file.exists():
            open_database(target, read_only=True).close()  # it says what is wrong with the file
            with (
                closing(sqlite3.connect(_ro(file), uri=True)) as there,
                closing(sqlite3.connect(copy)) as here,
            ):
                there.backup(here)
        yield str(copy)


def _ro(file: Path) -> str:
    return f"file:{quote(str(file))}?mode=ro"


def open_database(target: str, *, read_only: bool = False) -> Database:
    """Open a path or SQLAlchemy URL, create or upgrade what is there; a reader creates nothing.

    StoreError: missing (readers), a folder, no database, not writable, or written by a newer evoflash.
    """
    file = _sqlite_file(target)
    label = str(file) if file else label_of(target)
    with _translate_errors(label):
        if file:
            _check_file(file, read_only=read_only)
        engine = _engine(target, file, read_only=read_only)
        on_server = engine.dialect.name == "postgresql"
        database = Database(engine, label, SessionLocks(engine) if on_server else FileLocks(file))
        try:
            _bring_up_to_date(database, target, read_only=read_only)
        except BaseException:
            database.close()
            raise
    return database


def _sqlite_file(target: str) -> Path | None:
    if "://" not in target:
        return Path(expanduser(target)).absolute()
    url = _url(target)
    on_disk = url.database not in (None, "", ":memory:") and "uri" not in url.query
    is_file = url.get_backend_name() == "sqlite" and on_disk
    return Path(str(url.database)).absolute() if is_file else None


def _url(target: str) -> sa.URL:
    if target.startswith("postgres://"):  # libpq's other spelling
        target = target.replace("postgres", "postgresql", 1)
    try:
        return sa.make_url(target)
    except SQLAlchemyError as error:
        raise StoreError(
            "the database URL cannot be read: write dialect://user:password@host/name."
        ) from error


def label_of(target: str) -> str:
    """What a database is called towards people: its path, or its URL without a password."""
    if "://" not in target:
        return target
    return without_passwords(_url(target).render_as_string(hide_password=False))


def _check_file(file: Path, *, read_only: bool) -> None:
    if file.is_dir():
        raise StoreError(f"{file} is a folder: name a file, such as --db {file / 'evoflash.db'}.")
    if read_only and not file.exists():
        raise StoreError(f"no database at {file}: run `evoflash search` first, or name another with --db.")
    if not read_only:
        file.parent.mkdir(parents=True, exist_ok=True)
        _check_ours(file)


def _check_ours(file: Path) -> None:
    """StoreError for the SQLite file of another program, to which nothing is written, not even how it keeps
    its journal.
    """
    if not file.exists() or not file.stat().st_size:
        return
    with closing(sqlite3.connect(f"file:{quote(os.fsencode(file))}?mode=ro", uri=True)) as connection:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    tables = [name for (name,) in found]
    if tables and VERSION_TABLE not in tables:
        raise StoreError(not_ours(str(file), tables))


def not_ours(label: str, tables: Sequence[str]) -> str:
    """That a database is another program's, in words."""
    several = ", ".join(sorted(tables)[:3]) + (" and more" if len(tables) > 3 else "")
    return f"{label} is another program's database, with its tables {several}: name another with --db."


def _engine(target: str, file: Path | None, *, read_only: bool) -> sa.Engine:
    url = _file_url(file, read_only=read_only) if file else _url(target)
    name = url.get_backend_name()
    options = engine_options(url, read_only=read_only) if name == "postgresql" else {}
    try:
        engine = sa.create_engine(url, **options)
    except (SQLAlchemyError, ImportError) as error:
        remedy = install("postgres") if name == "postgresql" else "install one"
        raise StoreError(f"no driver for '{name}' databases: {remedy}, or use a path ({error}).") from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", lambda raw, _: _set_up_sqlite(raw, read_only=read_only))
        event.listen(engine, "begin", _begin_sqlite)
    if engine.dialect.name == "postgresql":
        event.listen(engine, "connect", lambda raw, _: set_up(raw, lock_timeout_ms=BUSY_TIMEOUT_MS))
    return engine


def _file_url(file: Path, *, read_only: bool) -> sa.URL:
    if not read_only:
        return sa.URL.create("sqlite", database=str(file))
    # A reader of a WAL database shares memory through a file beside it; where that cannot be created
    # (a read-only medium) and nobody is writing, the file is read as immutable.
    frozen = not os.access(file.parent, os.W_OK) and not Path(f"{file}-wal").exists()
    query = {"uri": "true"} | ({"immutable": "1"} if frozen else {"mode": "ro"})
    return sa.URL.create("sqlite", database=f"file:{quote(os.fsencode(file))}", query=query)


def _set_up_sqlite(raw: Any, *, read_only: bool) -> None:
    raw.isolation_level = None  # transactions are begun by _begin_sqlite, not guessed by sqlite3
    cursor = raw.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS:d}")
    cursor.execute("PRAGMA foreign_keys = ON")
    if not read_only and cursor.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        cursor.execute("PRAGMA journal_mode = WAL")
    cursor.close()


def _begin_sqlite(connection: sa.Connection) -> None:
    # A deferred transaction that turns into a write fails at once when another process wrote meanwhile.
    if connection.get_execution_options().get("writes", False):
        _begin_writing(connection)
    else:
        connection.exec_driver_sql("BEGIN")


def _begin_writing(connection: sa.Connection) -> None:
    """Waits for the lock in small steps; the other waits of a WAL database are short."""
    end_s = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    connection.exec_driver_sql(f"PRAGMA busy_timeout = {min(_TRY_MS, BUSY_TIMEOUT_MS):d}")
    while True:
        try:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            break
        except OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end_s:
                raise
    connection.exec_driver_sql(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS:d}")


def _bring_up_to_date(database: Database, target: str, *, read_only: bool) -> None:
    with database.reading() as connection:
        revision = _revision(connection)
        has_view = _has_view(connection)
        others = [] if revision else sa.inspect(connection).get_table_names()
    if others and not read_only:
        raise StoreError(not_ours(database.label, others))
    _check_revision(revision, database.label, read_only=read_only)
    if revision == HEAD and (read_only or has_view):
        return
    if read_only:
        open_database(target).close()
    else:
        database.write(_upgrade if revision != HEAD else _replace_view)


def _revision(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    found: str | None = connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").scalar()
    return found


def _check_revision(revision: str | None, label: str, *, read_only: bool) -> None:
    if revision is None and read_only:
        raise StoreError(
            f"{label} holds no evoflash results: run `evoflash search` first, or name another with --db."
        )
    if revision is not None and not list((shipped_folder(DB) / "versions").glob(f"{revision}_*.py")):
        raise StoreError(
            f"{label} was written by a newer evoflash (revision {revision}, this one knows {HEAD}): "
            "upgrade evoflash, or name another database with --db."
        )


def _upgrade(connection: sa.Connection) -> None:
    _alone(connection)
    if connection.dialect.name == "sqlite" and not sa.inspect(connection).get_table_names():
        for statement in _first_statements(DB):
            connection.exec_driver_sql(statement)
    else:
        _migrate(connection)
    _replace_view(connection)


@cache
def _first_statements(_migrations: Path) -> tuple[str, ...]:
    """What all migrations make of an empty SQLite file, without their way there, which takes 0.1 s."""
    with sa.create_engine("sqlite://").begin() as connection:
        _migrate(connection)
        tables = "SELECT sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY rowid"
        made = connection.exec_driver_sql(tables).scalars().all()
        revision = connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").scalar_one()
    return (*made, f"INSERT INTO {VERSION_TABLE} VALUES ('{revision}')")


def _migrate(connection: sa.Connection) -> None:
    # Late: importing alembic costs 0.9 s, and a database that is up to date does not need it.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(DB).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    connection.exec_driver_sql(f"DROP VIEW IF EXISTS {_VIEW}")  # SQLite alters no table under a view
    command.upgrade(config, "head")


def _alone(connection: sa.Connection) -> None:
    """No other process changes the schema now; SQLite's writers are alone anyway."""
    if connection.dialect.name == "postgresql":
        alone(connection)


def _view_sql() -> str:
    # Without replays: what a recording held is no kernel of this database.
    board = f"SELECT * FROM (\n{leaderboard_sql()}\n) AS board WHERE basis <> 'replayed'"
    return f"CREATE VIEW {_VIEW} AS\n{board}\nORDER BY problem, gpu, basis, rank, evaluation"


def _has_view(connection: sa.Connection) -> bool:
    if connection.dialect.name == "postgresql":
        return view_note(connection, _VIEW) == _view_note()
    query = sa.text("SELECT sql FROM sqlite_master WHERE type = 'view' AND name = :name")
    return bool(connection.scalar(query, {"name": _VIEW}) == _view_sql())


def _view_note() -> str:
    return hashlib.sha256(_view_sql().encode()).hexdigest()


def _replace_view(connection: sa.Connection) -> None:
    _alone(connection)
    connection.exec_driver_sql(f"DROP VIEW IF EXISTS {_VIEW}")
    connection.exec_driver_sql(_view_sql())
    if connection.dialect.name == "postgresql":
        note_view(connection, _VIEW, _view_note())


@contextmanager
def _translate_errors(label: str) -> Iterator[None]:
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OSError, OverflowError, UnicodeDecodeError) as error:
        raise StoreError(explain(label, error)) from error
    except DamagedRowError as error:
        raise StoreError(
            f"{label}: {error}: `evoflash db check` lists all such rows; put a copy of the database in its "
            "place, or take the run out with `evoflash runs delete`."
        ) from error
