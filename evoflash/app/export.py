"""Writes a kernel in one of the kinds of evoflash/exports/ and says what was written."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from evoflash.errors import UsageError
from evoflash.exports.exported import ExportRequest, gpus_of
from evoflash.exports.kinds import kind_of
from evoflash.notices import say

NAMED = 4  # files that are named one by one


def write(exported: ExportRequest, path: str, *, kind: str | None, archs: str | None) -> tuple[Path, ...]:
    """As written(), and says so."""
    files = write_files(exported, path, kind=kind, archs=archs)
    say(f"wrote {_in_words(files, path)}")
    return files


def _in_words(files: Sequence[Path], path: str) -> str:
    """Each file; of a folder with many of them how many there are."""
    if len(files) <= NAMED:
        return ", ".join(map(str, files))
    return f"{sum(file.is_file() for file in files)} files in {path}"


def write_files(
    exported: ExportRequest, path: str, *, kind: str | None, archs: str | None
) -> tuple[Path, ...]:
    """The files written. UsageError for a kind that is none, or that cannot be written."""
    if not Path(path).name:
        raise UsageError(f"'{path}' names no file: give a path such as kernel.cu.")
    chosen = kind_of(kind, path)
    others = gpus_of(_words(archs, exported.gpu.arch), exported.genome, exported.problem, exported.gpu)
    if archs is not None and not chosen.has_code:
        raise UsageError(f"--arch is for kinds that hold machine code; {chosen.name} does not: leave it out.")
    if exported.prefix is not None and chosen.name != "cu":
        raise UsageError(f"--prefix is for the C names of a .cu file; {chosen.name} has none: leave it out.")
    return chosen.write(replace(exported, others=others), Path(path))


def _words(archs: str | None, own: str) -> Sequence[str]:
    words = [word.strip() for word in archs.split(",")] if archs else [own]
    if own not in words:
        raise UsageError(f"--arch {archs}: the kernel's own is {own}: name it too, or give another --gpu.")
    return words
