"""Which baseline a GPU process is busy with: noted before it starts, and struck out when it is done.

A process that dies cannot say what killed it; the note can. A watchdog thread ends a process whose baseline
takes too long, whatever that does. Decides nothing: gpu_process/finals_retry.py reads the notes.
"""

import faulthandler
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LIMIT_S = 300.0  # FlashInfer compiles its kernels on their first use, FlashAttention-4 one for each setting
_OVERDUE = re.compile(r"Timeout \((.+)\)!")  # how the traceback of faulthandler's watchdog begins

_notes: Path | None = None
_busy = False


class BaselineFailedError(Exception):
    """A baseline left the GPU process unusable, or failed where others wait for it; the message says how."""


def note_in(path: str | Path) -> None:
    """From now on notes of this process go to that file, which its parent reads when the process is gone."""
    global _notes
    _notes = Path(path)


@contextmanager
def attempt(name: str, *, limit_s: float = LIMIT_S) -> Iterator[None]:
    """Something may happen to the process while this baseline is under way. The note stays where the block
    raises or the process ends in it. Without a file nothing is noted; an attempt within another is the same.
    """
    global _busy
    if _notes is None or _busy:
        yield
        return
    with _notes.open("w") as file:
        file.write(f"{name}\n")
        file.flush()
        _busy = True
        faulthandler.dump_traceback_later(limit_s, exit=True, file=file)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
            _busy = False
    _notes.write_text("")


def culprit(path: str | Path) -> tuple[str, str]:
    """The baseline that was under way when a process ended, and the watchdog's word on it; else empty."""
    name, _, rest = Path(path).read_text(errors="replace").partition("\n")
    overdue = _OVERDUE.match(rest)
    return name, f"it took more than {overdue[1]} (h:mm:ss)" if overdue else ""
