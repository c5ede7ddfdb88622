"""Writes exported files whole or not at all."""

import contextlib
import os
from pathlib import Path

from evoflash.errors import UsageError


def write_bytes(path: Path, content: bytes) -> None:
    """UsageError where the path cannot be written, or would replace a database: that is then still there."""
    if not path.name:
        raise UsageError(f"'{path}' is no file: give the name of one.")
    if _is_database(path):
        raise UsageError(f"{path} is a database, and would be lost: choose another path.")
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.write_bytes(content)
        os.replace(beside, path)
    except OSError as error:
        with contextlib.suppress(OSError):  # where it could not even be begun
            beside.unlink()
        raise UsageError(f"{path} cannot be written ({error.strerror}): choose another path.") from None


def write_text(path: Path, text: str) -> None:
    """As write_bytes(), in UTF-8."""
    write_bytes(path, text.encode("utf-8"))


def _is_database(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except (OSError, ValueError):  # it is not there, or no file can be: writing says so
        return False
