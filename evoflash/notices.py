"""Says things to the person on stderr while a command works, as loud as -v and -q ask. Prints no result."""

import logging
import shlex
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from evoflash.errors import UsageError, without_passwords
from evoflash.paths import default_database
from evoflash.settings import is_on, value

if TYPE_CHECKING:
    pass


_PATIENCE_S = 1.0


def say(message: str) -> None:
    """One line for the person, on stderr; --quiet silences it."""
    if not is_on("quiet"):
        print(f"evoflash: {message}", file=sys.stderr, flush=True)


@contextmanager
def working(on: str) -> Iterator[None]:
    """Say what is being done where it takes longer than people like to wait without a word."""
    clock = threading.Timer(_PATIENCE_S, say, (f"{on} ...",))
    clock.daemon = True
    clock.start()
    try:
        yield
    finally:
        clock.cancel()


_databases: list[str] = []  # that of the running command, once it is known


def is_verbose() -> bool:
    """Whether -v was given, or EVOFLASH_LOG asks for as much."""
    return logging.getLogger("evoflash").isEnabledFor(logging.INFO)


def db_words() -> str:
    """` --db FILE` where the running command was given a database of its own, for a command that is shown.

    Without the password of a URL.
    """
    own = (without_passwords(db) for db in _databases if db != default_database())
    return "".join(f" --db {shlex.quote(db)}" for db in own)


def log_to_stderr() -> None:
    """Show evoflash's own log at the level in EVOFLASH_LOG; what libraries log is not for users."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("evoflash: %(message)s"))
    logger = logging.getLogger("evoflash")
    logger.handlers = [handler]
    logger.setLevel(_level())


def _level() -> int:
    try:
        word = value("log") or ("error" if is_on("quiet") else "warning")
    except UsageError:  # of a config file: the command says it, and --help is shown all the same
        return logging.WARNING
    level = logging.getLevelNamesMapping().get(word.upper())
    if level is None:
        raise UsageError(f"the log's level '{word}' (EVOFLASH_LOG): give debug, info, warning or error.")
    return level
