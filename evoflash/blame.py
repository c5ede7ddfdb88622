"""Notes what of a candidate has begun in a process, for whoever asks what it died of. Judges nothing.

A process that dies in a compiler dies of the text, and one that dies after a kernel's first launch dies of
the kernel. One that dies before either says nothing about the candidate: a machine's memory, a library that
does not load, a file of the cache that was cut. isolation.py asks; who compiles or launches says so here.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from multiprocessing import reduction
from typing import Any


class CallStage(IntEnum):
    """What of a candidate had begun when a process died."""

    NOTHING = 0
    COMPILER = 1
    KERNEL = 2


class BlameNotes:
    """A byte for each call: what of a candidate has begun in it. Given to processes as they are started.

    The bytes are in a file without a name, which the system frees with the last process that has it.
    """

    def __init__(self) -> None:
        if hasattr(os, "memfd_create"):
            self._file = os.fdopen(os.memfd_create("evoflash-blame"), "r+b", buffering=0)
        else:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115

    def progress(self, call: int) -> CallStage:
        """What has begun in the call of this number."""
        return CallStage((os.pread(self._file.fileno(), 1, call) or b"\0")[0])

    def write(self, call: int, begun: CallStage) -> None:
        os.pwrite(self._file.fileno(), bytes([begun]), call)

    def close(self) -> None:
        self._file.close()

    def __getstate__(self) -> Any:
        return reduction.DupFd(self._file.fileno())  # while a process is started, which then has the file too

    def __setstate__(self, file: Any) -> None:
        self._file = os.fdopen(file.detach(), "r+b", buffering=0)


_notes: BlameNotes | None = None  # of the pool that this process belongs to
_call = 0
_begun = CallStage.NOTHING


def note_in(notes: BlameNotes) -> None:
    """From now on this process notes there what begins in it."""
    global _notes
    _notes = notes


def begin_call(number: int) -> None:
    """A call of this number begins; nothing of a candidate has."""
    global _call
    _call = number
    _note(CallStage.NOTHING)


def begin_kernel() -> None:
    """A candidate's kernel is about to be launched: from here to the end of the call all is laid to it."""
    if _begun is not CallStage.KERNEL:
        _note(CallStage.KERNEL)


@contextmanager
def compiling() -> Iterator[None]:
    """Inside, a compiler reads a candidate's text in this process."""
    before = _begun
    _note(max(before, CallStage.COMPILER))
    try:
        yield
    finally:
        _note(before)


def _note(begun: CallStage) -> None:
    global _begun
    _begun = begun
    if _notes is not None:
        _notes.write(_call, begun)
