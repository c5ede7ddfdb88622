"""SIGTERM ends a command in good order, as Ctrl-C does: contexts are left, workers are gone, one line."""

import signal
from typing import NoReturn

EXIT_CODE = 128 + signal.SIGTERM


class Terminated(SystemExit):
    """SIGTERM, as a batch system sends it before SIGKILL; no `except Exception` stops it on its way."""

    def __init__(self) -> None:
        super().__init__(EXIT_CODE)


def end_on_sigterm() -> None:
    """From now on SIGTERM raises Terminated in the main thread. A second one changes nothing."""
    signal.signal(signal.SIGTERM, _end)


def _end(*_: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Terminated
