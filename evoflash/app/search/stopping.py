"""Ends a command in good order on Ctrl-C or SIGTERM. What it was doing is not finished.

Contexts are left, workers are gone, one line is said. The first of the two signals counts; what follows it
while the command ends changes nothing. A command that cannot end so in time, because its main thread is in a
long call into C or a process does not die, ends without order: the database is as after kill -9, whole. So
does one that is importing a module, because an exception may be lost in there, or come out as another one.
Not covered: C code that keeps Python's lock.
"""

import atexit
import os
import signal
import time
from types import FrameType

EXIT_CODE = 128 + signal.SIGTERM
LIMIT_S = 5.0
_NOTICED_S = 0.2
_NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
_heard: list[int] = []  # the first of them, once the main thread knows of it


class TerminatedError(SystemExit):
    """SIGTERM, as a batch system sends it before SIGKILL; no `except Exception` stops it on its way."""

    def __init__(self) -> None:
        super().__init__(EXIT_CODE)


def end_on_signals() -> None:
    """From now on SIGTERM raises Terminated in the main thread, and Ctrl-C KeyboardInterrupt, once in all.

    Where Ctrl-C is ignored, as by what a script starts with `&`, it stays so.
    """
    signal.signal(signal.SIGTERM, _end)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _end)
    import threading  # here, because the handlers come first: Ctrl-C is one line from now on

    atexit.register(_hear_nothing_more)
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    threading.Thread(target=_end_late, args=(told,), name="evoflash-termination", daemon=True).start()


def progress_note(stop: BaseException) -> str:
    """What the store said as it was stopped (session.py), in words."""
    return " ".join(getattr(stop, "__notes__", ())) or "everything evaluated so far is kept"


def _end(number: int, frame: FrameType | None) -> None:
    if _heard:
        return
    _heard.append(number)
    if _is_importing(frame):
        os.write(2, f"evoflash: stopped by {_NAMES[signal.Signals(number)]}.\n".encode())
        os._exit(128 + number)
    raise KeyboardInterrupt if number == signal.SIGINT else TerminatedError


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _hear_nothing_more() -> None:
    """Python takes its own handlers away before its last instruction."""
    for number in _NAMES:
        signal.signal(number, signal.SIG_IGN)


def _end_late(told: int) -> None:
    """In a thread, because a signal's handler waits for the main thread to come back from C."""
    import threading

    number = os.read(told, 1)[0]
    time.sleep(_NOTICED_S)
    if not _heard:
        # Of two signals at once Linux may wake the main thread for neither: another thread took both.
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    time.sleep(LIMIT_S - _NOTICED_S)
    what = _NAMES[signal.Signals(number)]
    line = (
        f"evoflash: {LIMIT_S:g} s after {what} something had not ended and was left: everything evaluated so "
        "far is kept; the same command continues.\n"
    )
    os.write(2, line.encode())
    os._exit(128 + number)
