"""Tells whether what the cache holds is what was put there, by digests kept with it. Makes nothing anew.

A file has its digest behind its last byte, where those who load a shared library do not look: it is in place
at the same moment as the file. A folder has one of all its files in a file of its own.
"""

import hashlib
from pathlib import Path

_MARK = b"evoflash sha256 "
_BYTES = hashlib.sha256().digest_size
DIGEST = "sha256"  # the file of a folder


def seal_library(path: Path) -> None:
    """Put the digest of a library that was just built behind its end."""
    with path.open("r+b") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
        file.write(_MARK + digest)


def is_whole_library(path: Path) -> bool:
    """Whether a library is there, with the digest of what it holds."""
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return _size_if_whole(content) is not None


def seal(content: bytes) -> bytes:
    """The content with its digest behind its end."""
    return content + _MARK + hashlib.sha256(content).digest()


def unseal(content: bytes) -> bytes | None:
    """What was sealed; None where it is not whole."""
    size = _size_if_whole(content)
    return None if size is None else content[:size]


def _size_if_whole(content: bytes) -> int | None:
    """Bytes before the digest, where that is of what stands before it."""
    end = len(content) - _BYTES - len(_MARK)
    if end < 0 or content[end : end + len(_MARK)] != _MARK:
        return None
    return end if hashlib.sha256(memoryview(content)[:end]).digest() == content[end + len(_MARK) :] else None


def seal_folder(folder: Path) -> None:
    """Write the digest of a folder's files beside them."""
    (folder / DIGEST).write_text(_digest(folder), encoding="ascii")


def is_whole_folder(folder: Path) -> bool:
    """Whether a folder's files are those that it was sealed with."""
    try:
        return (folder / DIGEST).read_text(encoding="ascii") == _digest(folder)
    except (OSError, UnicodeDecodeError):
        return False


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(each for each in folder.iterdir() if each.name != DIGEST):
        content = path.read_bytes()
        digest.update(f"{path.name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()
