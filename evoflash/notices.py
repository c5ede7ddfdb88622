"""Notes for the person while something works: `say` hands a line to whoever listens. Writes nothing itself.

Where nobody listens, as in a Python program that imports evoflash, notes go nowhere. The command line
listens (cli/program.py) and writes them on stderr.
"""

import logging
import shlex
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial

from evoflash.errors import EvoflashError, without_passwords
from evoflash.paths import default_database

Listener = Callable[[str], object]

_PATIENCE_S = 1.0
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
_database: ContextVar[str | None] = ContextVar("database", default=None)  # of the running command


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Inside, the listener gets every note."""
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


def say(message: str) -> None:
    """One line for the person."""
    if (listener := _listener.get()) is not None:
        listener(message)


def count_of(number: int, noun: str) -> str:
    """`1 shape`, `1,024 runs`, `2 strategies`, `3 ways`: so many of what the noun names."""
    ends_in_ies = noun.endswith("y") and noun[-2:-1] not in "aeiou"
    plural = f"{noun[:-1]}ies" if ends_in_ies else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


@contextmanager
def working(on: str) -> Iterator[None]:
    """Say what is being done where it takes longer than people like to wait without a word."""
    with call_if_late(partial(copy_context().run, say, f"{on} ..."), after_s=_PATIENCE_S):
        yield


@contextmanager
def call_if_late(function: Callable[[], object], *, after_s: float) -> Iterator[None]:
    """Call the function, in a thread of its own, where what is inside takes longer than that."""
    clock = threading.Timer(after_s, function)
    clock.daemon = True
    clock.start()
    try:
        yield
    finally:
        clock.cancel()


def is_verbose() -> bool:
    """Whether -v was given, or EVOFLASH_LOG asks for as much."""
    return logging.getLogger("evoflash").isEnabledFor(logging.INFO)


def name_database(db: str) -> None:
    """Commands that are shown from now on name this database."""
    _database.set(db)


def db_words() -> str:
    """` --db FILE` where the running command was given a database of its own, for a command that is shown.

    Without the password of a URL.
    """
    db = _database.get()
    return "" if db is None or _is_default(db) else f" --db {shlex.quote(without_passwords(db))}"


def _is_default(db: str) -> bool:
    try:
        return db == default_database()
    except EvoflashError:  # there is no home to have one
        return False
