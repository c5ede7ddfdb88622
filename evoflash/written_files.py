"""Writes files whole or not at all, and never over one that evoflash did not write or that was edited since.

The digests of what was written are kept in the folder of evoflash's state: a file whose digest is not among
them belongs to somebody, and is replaced where that was asked for (`--force`). Knows no kind of file.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from evoflash.errors import UsageError
from evoflash.paths import state_dir

_DIGITS = 32
_MOST_BYTES = 2 << 20  # of the list of digests; then the older half is forgotten
_is_forced: ContextVar[bool] = ContextVar("is_forced", default=False)
_written_here: set[str] = set()  # also where the state cannot be kept


@contextlib.contextmanager
def replacing(is_wanted: bool = True) -> Iterator[None]:
    """Inside, files of others are replaced, too."""
    before = _is_forced.set(is_wanted or _is_forced.get())
    try:
        yield
    finally:
        _is_forced.reset(before)


def check_replaceable(*paths: Path) -> None:
    """UsageError where one of these files is there, and was written by somebody else or edited since.

    For what takes long: it is said before the work begins.
    """
    if _is_forced.get():
        return
    for path in paths:
        if _is_file(path) and not is_ours(path):
            raise UsageError(
                f"{path} was not written by evoflash here, or was edited since: choose another path, or "
                "replace it with --force."
            )


def is_ours(path: Path) -> bool:
    """Whether a file is empty, or as evoflash wrote it."""
    try:
        content = path.read_bytes()
    except OSError:
        return True  # writing says what is wrong
    return not content or _digest(content) in _known_digests()


def write_bytes(path: Path, content: bytes) -> None:
    """UsageError where the path cannot be written, or the file there is not evoflash's to replace: that is
    then still there. A database is never replaced.
    """
    if not path.name:
        raise UsageError(f"'{path}' is no file: give the name of one.")
    if _is_database(path):
        raise UsageError(f"{path} is a database, and would be lost: choose another path.")
    if not _holds(path, content):
        check_replaceable(path)
    beside = path.with_name(f".{path.name}.new")
    try:
        if path.exists() and not path.is_file() and not path.is_dir():  # a pipe, /dev/stdout
            path.write_bytes(content)
            return
        beside.write_bytes(content)
        os.replace(beside, path)
    except OSError as error:
        with contextlib.suppress(OSError):  # where it could not even be begun
            beside.unlink()
        raise UsageError(f"{path} cannot be written ({error.strerror}): choose another path.") from None
    _keep(_digest(content))


def write_text(path: Path, text: str) -> None:
    """As write_bytes(), in UTF-8."""
    write_bytes(path, text.encode("utf-8"))


def keep_written(path: Path) -> None:
    """A file that was written in another way, by a library, is evoflash's as it is now."""
    with contextlib.suppress(OSError):
        _keep(_digest(path.read_bytes()))


def _holds(path: Path, content: bytes) -> bool:
    try:
        return path.is_file() and path.stat().st_size == len(content) and path.read_bytes() == content
    except (OSError, ValueError):
        return False


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # no file can be called so: writing says so
        return False


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


def _list() -> Path:
    return state_dir() / "written-files"


def _known_digests() -> set[str]:
    try:
        return _written_here.union(_list().read_text(encoding="ascii").split())
    except (OSError, UnicodeDecodeError):
        return _written_here


def _keep(digest: str) -> None:
    if digest in _known_digests():
        return
    _written_here.add(digest)
    place = _list()
    with contextlib.suppress(OSError):  # without it, --force replaces the file
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.exists() and place.stat().st_size > _MOST_BYTES:
            newest = place.read_text(encoding="ascii", errors="replace").split()
            place.write_text("\n".join(newest[len(newest) // 2 :]) + "\n", encoding="ascii")
        with place.open("a", encoding="ascii") as file:
            file.write(digest + "\n")


def _is_database(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return path.is_file() and file.read(16) == b"SQLite format 3\0"
    except (OSError, ValueError):  # it is not there, or no file can be: writing says so
        return False
