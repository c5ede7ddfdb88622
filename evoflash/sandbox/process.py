"""Runs commands inside of a boundary and ends them, with all that they started, at a limit. Judges nothing.

What such a process answers is bytes from a stranger: nobody here unpickles or executes them.
"""

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from evoflash.sandbox.boundary import Boundary

_LOOK_EVERY_S = 0.05
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_LAST_S, _MOST_LAST = 1.0, 4096
_MOST_SAID = 1 << 20  # bytes of a compiler's words
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """What a command and all that it starts may take."""

    seconds: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class EndedCommand:
    """How a command ended; `broken_limit` says in words which limit ended it."""

    exit_code: int
    stderr: str
    broken_limit: str = ""


class ConfinedProcess:
    """A process inside of a boundary, with pipes to its stdin and from one descriptor of its own.

    A context manager: the process and its children are gone when the block ends.
    """

    def __init__(
        self,
        boundary: Boundary,
        argv: Sequence[str],
        *,
        read: Sequence[Path],
        write: Path,
        memory_bytes: int,
    ) -> None:
        """`argv` gets the number of the descriptor on which it answers as its last argument."""
        self.broken_limit = ""
        self._memory_bytes = memory_bytes
        self._answers, theirs = os.pipe()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  # close() closes it
        os.set_blocking(self._answers, False)
        try:
            self._process = subprocess.Popen(
                boundary.command([*argv, str(theirs)], read=read, write=write),
                env=boundary.environment(write),
                cwd=write,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                pass_fds=(theirs,),
                start_new_session=True,
            )
        finally:
            os.close(theirs)
        self._has_ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="evoflash-sandbox", daemon=True)
        self._watcher.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, request: bytes) -> bool:
        """Whether it was taken: a process that is gone takes nothing."""
        assert self._process.stdin is not None, "it has a pipe"
        try:
            self._process.stdin.write(request)
            self._process.stdin.flush()
        except OSError:
            return False
        return True

    def receive(self, size: int, deadline_s: float) -> bytes | None:
        """That many bytes by then, of time.monotonic(); None where they do not come."""
        parts, missing = list[bytes](), size
        while missing:
            left = deadline_s - time.monotonic()
            if left <= 0 or not select.select([self._answers], [], [], left)[0]:
                return None
            part = os.read(self._answers, min(missing, _CHUNK))
            if not part:
                return None
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def last_words(self) -> tuple[int | None, str]:
        """The exit code of one that has ended, or is about to, and the last line that it said on stderr."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LAST_S)
        size = self._said.seek(0, os.SEEK_END)
        self._said.seek(max(0, size - _MOST_LAST))
        lines = self._said.read().decode(errors="replace").split("\n")
        return self._process.returncode, next((line.strip() for line in reversed(lines) if line.strip()), "")

    def close(self) -> None:
        self._has_ended.set()
        _kill(self._process)
        self._process.wait()
        self._watcher.join()
        os.close(self._answers)
        self._said.close()
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def _watch(self) -> None:
        while not self._has_ended.wait(_LOOK_EVERY_S):
            if resident_bytes(self._process.pid) > self._memory_bytes:
                self.broken_limit = f"{self._memory_bytes >> 20} MiB of memory"
                _kill(self._process)
                return


def run_inside(
    boundary: Boundary,
    argv: Sequence[str],
    *,
    text: str,
    read: Sequence[Path],
    write: Path,
    limits: ProcessLimits,
) -> EndedCommand:
    """A command with this text as its input, until it ends or has taken what it may."""
    process = subprocess.Popen(
        boundary.command(argv, read=read, write=write),
        env=boundary.environment(write),
        cwd=write,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    said: list[bytes] = []
    talking = threading.Thread(target=_exchange, args=(process, text.encode(), said), daemon=True)
    talking.start()
    deadline_s, broken = time.monotonic() + limits.seconds, ""
    try:
        while process.poll() is None and not broken:
            talking.join(_LOOK_EVERY_S if talking.is_alive() else 0)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.001)
            if time.monotonic() > deadline_s:
                broken = f"{limits.seconds:g} s"
            elif resident_bytes(process.pid) > limits.memory_bytes:
                broken = f"{limits.memory_bytes >> 20} MiB of memory"
    finally:
        _kill(process)
        process.wait()
        talking.join()
    return EndedCommand(process.returncode, b"".join(said).decode(errors="replace"), broken)


def _exchange(process: "subprocess.Popen[bytes]", text: bytes, said: list[bytes]) -> None:
    """Give the input and take the words, of which the first are kept."""
    assert process.stdin is not None, "it is a pipe"
    assert process.stderr is not None, "it is a pipe"
    with contextlib.suppress(OSError):
        process.stdin.write(text)
    with contextlib.suppress(OSError):
        process.stdin.close()
    kept = 0
    while part := process.stderr.read1(_CHUNK):  # type: ignore[attr-defined]
        if kept < _MOST_SAID:
            said.append(part)
        kept += len(part)
    process.stderr.close()


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """The group and, of bubblewrap, the name space of processes with it."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


def resident_bytes(pid: int) -> int:
    """Memory of a process and of all below it."""
    total, waiting = 0, [pid]
    while waiting:
        each = waiting.pop()
        try:
            with open(f"/proc/{each}/statm", encoding="ascii") as file:
                total += int(file.read().split()[1]) * _PAGE_BYTES
            for thread in os.listdir(f"/proc/{each}/task"):
                with open(f"/proc/{each}/task/{thread}/children", encoding="ascii") as file:
                    waiting += map(int, file.read().split())
        except (OSError, IndexError, ValueError):  # it has ended
            continue
    return total
