"""Tells a person of an error that nobody foresaw: one line, and a log for a bug report. Mends nothing.

EVOFLASH_DEBUG=1 shows the traceback as well.
"""

import os
import platform
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from evoflash.errors import EvoflashError, without_passwords
from evoflash.paths import state_dir
from evoflash.settings import is_on
from evoflash.version import __version__

EXIT_CODE = os.EX_SOFTWARE  # 70


def report(error: BaseException, arguments: Sequence[str]) -> str:
    """What to say of the error, in one line; the log is written as a side effect, where that is possible."""
    said = " ".join(str(error).split())
    what = f"{type(error).__name__}: {said[:200]}" if said else type(error).__name__
    command = next((word for word in arguments if not word.startswith("-")), "evoflash")
    line = f"unexpected error in {command}: {without_passwords(what)}; this is a mistake in evoflash."
    try:
        path = _write_log(error, arguments)
    except (EvoflashError, OSError) as failure:
        why = f"to {state_dir()} ({failure.strerror})" if isinstance(failure, OSError) else "without a home"
        return (
            f"{line} No log could be written {why}: "
            "run the command again with EVOFLASH_DEBUG=1 and report the traceback."
        )
    return f"{line} Please report it with the log {path}, which has the traceback."


def is_debugging() -> bool:
    """Whether tracebacks are shown; a setting that makes no sense shows none."""
    try:
        return is_on("debug")
    except Exception:
        return False


def _write_log(error: BaseException, arguments: Sequence[str]) -> Path:
    folder = state_dir() / "errors"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    lines = [
        f"command    evoflash {without_passwords(' '.join(map(repr, arguments)))}",
        f"versions   {_versions()}",
        f"python     {sys.version.split()[0]} at {sys.executable}, {platform.platform()}",
        f"folder     {Path.cwd()}",
        "",
        without_passwords("".join(traceback.format_exception(error))),
    ]
    path.write_text("\n".join(lines), encoding="utf-8", errors="backslashreplace")
    return path


def _versions() -> str:
    """Of evoflash and what it stands on; of evoflash alone where asking for the others fails."""
    try:
        from evoflash.app.catalogue import versions

        return versions()
    except Exception as error:
        return f"evoflash {__version__} ({type(error).__name__} while asking for the others)"
