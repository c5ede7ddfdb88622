"""The one folder whose files a client may name, and the database of its searches. Opens no file.

A name is refused that is absolute, leads out by `..`, or passes a symbolic link, wherever that leads.
"""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from evoflash.errors import UsageError


@dataclass(frozen=True, slots=True)
class ServedFolder:
    """`root` is absolute and has no symbolic link in it."""

    root: Path
    db: str

    def file(self, name: str) -> Path:
        """A regular file to read. UsageError for another name, and for what is no such file."""
        path = self._below(name)
        if not path.is_file():
            raise UsageError(f"there is no file '{name}' below the root: name one that is there.")
        return path

    def target(self, name: str) -> Path:
        """Where a file or a folder may be written. UsageError for another name, and where a folder of that
        name holds a symbolic link, through which files would leave.
        """
        path = self._below(name)
        if path == self.root:
            raise UsageError("the root itself is no file: name one below it.")
        if path.is_dir() and any(each.is_symlink() for each in path.rglob("*")):
            raise UsageError(f"'{name}' holds a symbolic link: name another folder.")
        if path.exists() and not path.is_dir() and not path.is_file():
            raise UsageError(f"'{name}' is no regular file: name another one.")
        return path

    def _below(self, name: str) -> Path:
        words = PurePosixPath(name)
        if "\0" in name or not name.strip():
            raise UsageError("that names no file: give a path relative to the root.")
        if words.is_absolute() or name.startswith("~"):
            raise UsageError(f"'{name}' is absolute: give a path relative to the root.")
        if ".." in words.parts:
            raise UsageError(f"'{name}' leads out of the root by '..': give a path below it.")
        path = self.root
        for part in words.parts:
            path = path / part
            if path.is_symlink():
                raise UsageError(
                    f"'{name}' passes a symbolic link: name the file where it is, below the root."
                )
        return path


def served_folder(root: Path, db: str) -> ServedFolder:
    """UsageError where there is no such folder."""
    if not root.is_dir():
        raise UsageError(f"--root {root} is no folder: name one that is there.")
    return ServedFolder(root.resolve(), db)
