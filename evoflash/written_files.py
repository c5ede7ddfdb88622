"""Writes files whole or not at all, and never over one that evoflash did not write or that was edited since.

The digests of what was written are kept in the folder of evoflash's state: a file whose digest is not among
them belongs to somebody, and is replaced where that was asked for (`--force`). Knows no kind of file.
"""

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from evoflash.errors import DeviceError, UsageError
from evoflash.paths import state_dir

_DIGITS = 32
_MOST_BYTES = 2 << 20  # of the list of digests; then the older half is forgotten
_is_forced: ContextVar[bool] = ContextVar("is_forced", default=False)
_written_here: set[str] = set()  # also where the state cannot be kept


@dataclass(slots=True)
class WrittenFiles:
    """The files of one command; in a dry run those that it would have written."""

    paths: list[Path] = field(default_factory=list)
    folders: set[Path] = field(default_factory=set)  # that a dry run would have made
    is_dry: bool = False


_files: ContextVar[WrittenFiles | None] = ContextVar("files", default=None)


@contextlib.contextmanager
def noting_files(files: WrittenFiles) -> Iterator[WrittenFiles]:
    """Inside, the files that are written are noted; where `is_dry`, they are noted and not written."""
    before = _files.set(files)
    try:
        yield files
    finally:
        _files.reset(before)


@contextlib.contextmanager
def dry_run(is_wanted: bool = True) -> Iterator[None]:
    """Inside, no file and no folder is written, but every check of its path is made."""
    files = _files.get() or WrittenFiles()
    files.is_dry |= is_wanted
    with noting_files(files):
        yield


def is_dry_run() -> bool:
    files = _files.get()
    return files is not None and files.is_dry


def wrote() -> str:
    """The word of notes: a dry run `would write`."""
    return "would write" if is_dry_run() else "wrote"


def make_folder(path: Path) -> None:
    """With the folders above it; OSError where that cannot be."""
    files = _files.get()
    if files is None or not files.is_dry:
        path.mkdir(parents=True, exist_ok=True)
        return
    for each in (path, *path.parents):
        if each.exists():
            _check_writable(each)
            return
        files.folders.add(each)


def note_file(path: Path) -> None:
    """A file that was written, or would have been."""
    files = _files.get()
    if files is not None and path not in files.paths:
        files.paths.append(path)


def _check_place(path: Path) -> None:
    """OSError where the file could not be written; its folder may be one that the dry run would make."""
    files = _files.get()
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if files is None or path.parent not in files.folders:
        path.parent.stat()
        _check_writable(path.parent)


def _check_writable(folder: Path) -> None:
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


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
        if is_dry_run():
            _check_place(path)
        elif path.exists() and not path.is_file() and not path.is_dir():  # a pipe, /dev/stdout
            path.write_bytes(content)
            return
        else:
            beside.write_bytes(content)
            os.replace(beside, path)
    except OSError as error:
        with contextlib.suppress(OSError):  # where it could not even be begun
            beside.unlink()
        raise UsageError(f"{path} cannot be written ({error.strerror}): choose another path.") from None
    note_file(path)
    if not is_dry_run():
        _keep(_digest(content))


def write_text(path: Path, text: str) -> None:
    """As write_bytes(), in UTF-8."""
    write_bytes(path, text.encode("utf-8"))


def keep_written(path: Path) -> None:
    """A file that was written in another way, by a library, is evoflash's as it is now."""
    with contextlib.suppress(OSError):
        _keep(_digest(path.read_bytes()))


def note_move(source: Path, target: Path) -> None:
    """What was written in a folder has gone to another one."""
    files = _files.get()
    if files is not None:
        files.paths = [
            target / each.relative_to(source) if each.is_relative_to(source) else each for each in files.paths
        ]


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
    except (OSError, UnicodeDecodeError, DeviceError):  # the last: there is no home
        return _written_here


def _keep(digest: str) -> None:
    if digest in _known_digests():
        return
    _written_here.add(digest)
    with contextlib.suppress(OSError, DeviceError):  # without it, --force replaces the file
        place = _list()
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
