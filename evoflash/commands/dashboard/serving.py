"""optuna-dashboard on a study's file, until Ctrl-C. Writes no study."""

import importlib.util
import socket
from pathlib import Path

from evoflash.commands.terminal import say
from evoflash.errors import UsageError

INSTALL = 'pip install "evoflash[dashboard]"'


def check_installed() -> None:
    """UsageError, which says which extra, where optuna-dashboard is not here."""
    if importlib.util.find_spec("optuna_dashboard") is None:
        raise UsageError(f"optuna-dashboard is not installed: {INSTALL}, or only write it: --no-serve.")


def check_free(host: str, port: int) -> None:
    """UsageError where nobody can listen there."""
    try:
        with socket.create_server((host, port)):
            pass
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"port {port} of {host} cannot be used ({why}): give another --port.") from None


def serve(study: Path, host: str, port: int) -> None:
    """Show the study in a browser until Ctrl-C."""
    from optuna_dashboard import run_server

    from evoflash.commands.dashboard.study import storage_of

    say(f"http://{host}:{port}/ shows the run; Ctrl-C ends it.")
    run_server(storage_of(study), host=host, port=port)
