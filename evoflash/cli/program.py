"""The program's entry `main`, and the list of the commands, which stand in commands/. Decides nothing.

Data goes to stdout, everything else to stderr. Typer and the commands are imported by functions, not with
this module, so that Ctrl-C is one line from the very start.
An error that nobody foresaw is one line and a log for a bug report.
"""

import gc
import io
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from evoflash.app.search.stopping import EXIT_CODE, TerminatedError, end_on_signals, progress_note
from evoflash.cli import json_answer
from evoflash.errors import EvoflashError, UsageError, without_passwords
from evoflash.paths import state_dir
from evoflash.settings import is_on, value
from evoflash.version import __version__

if TYPE_CHECKING:
    import typer
    from typer.core import TyperGroup


# Loading makes a hundred thousand objects that stay; Python would look through them after each 700 new ones.
_GC_THRESHOLD = 50_000


def commands() -> tuple[Callable[..., None], ...]:
    """The commands, in the order in which --help lists them."""
    from evoflash.cli.commands.baselines import baselines
    from evoflash.cli.commands.benchmark_search import benchmark_search
    from evoflash.cli.commands.best import best
    from evoflash.cli.commands.check import check
    from evoflash.cli.commands.compare import compare
    from evoflash.cli.commands.config import config
    from evoflash.cli.commands.dashboard import dashboard
    from evoflash.cli.commands.doctor import doctor
    from evoflash.cli.commands.evaluate import evaluate
    from evoflash.cli.commands.export import export
    from evoflash.cli.commands.families import families
    from evoflash.cli.commands.gpus import gpus
    from evoflash.cli.commands.insights import insights
    from evoflash.cli.commands.ladder import ladder
    from evoflash.cli.commands.leaderboard import leaderboard
    from evoflash.cli.commands.mcp import mcp
    from evoflash.cli.commands.new import new
    from evoflash.cli.commands.portfolio import portfolio
    from evoflash.cli.commands.problems import problems
    from evoflash.cli.commands.profile import profile
    from evoflash.cli.commands.record import record
    from evoflash.cli.commands.remeasure import remeasure
    from evoflash.cli.commands.replay import replay
    from evoflash.cli.commands.report import report
    from evoflash.cli.commands.search import search
    from evoflash.cli.commands.show import show
    from evoflash.cli.commands.status import status, watch
    from evoflash.cli.commands.verify import verify
    from evoflash.cli.commands.worker import worker

    searching = (search, best, leaderboard, report, show, export, evaluate, remeasure)
    following = (status, watch)
    studying = (insights, dashboard, replay, benchmark_search, record, ladder, portfolio)
    judging = (check, baselines, compare, profile, verify)
    return (
        *searching,
        *following,
        *studying,
        *judging,
        families,
        gpus,
        problems,
        new,
        config,
        worker,
        mcp,
        doctor,
    )


def groups() -> "tuple[typer.Typer, ...]":
    from evoflash.cli.commands.db import group as db
    from evoflash.cli.commands.runs import group as runs

    return runs(), db()


@cache
def app() -> "TyperGroup":
    """The program with all its commands; made once in a process."""
    from evoflash.cli.options import group_of, program

    return group_of(program(commands(), groups()))


def main() -> None:
    """The console script: one line and a documented exit code for everything that can go wrong."""
    gc.set_threshold(_GC_THRESHOLD)
    _open_what_is_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")  # a letter that a terminal lacks is a question mark there
    try:
        exit_code = _until_a_signal(lambda: run_command(sys.argv[1:]))
    finally:
        gc.freeze()  # else the interpreter looks for garbage in all that is loaded before it ends
    sys.exit(exit_code)


def _until_a_signal(call: Callable[[], int]) -> int:
    try:
        end_on_signals()
        return call()
    except KeyboardInterrupt:
        return _say("stopped by Ctrl-C.", 130)
    except TerminatedError as stop:
        kept = f": {progress_note(stop)}; the same command continues" if hasattr(stop, "__notes__") else ""
        return _say(f"stopped by SIGTERM{kept}.", EXIT_CODE)


def _open_what_is_closed() -> None:
    """Where a service manager or `>&-` closed stdin, stdout or stderr, it is as if it led to /dev/null; else
    the next file that is opened, such as the database, would take its number, and get what children print.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r+", encoding="utf-8"))  # noqa: SIM115


def run_command(arguments: Sequence[str]) -> int:
    """The command, and its exit code where it ends with an error; else a SystemExit ends it.

    Where --json is among the words, stdout gets one JSON document and nothing else.
    """
    arguments = json_answer.with_stdout(arguments)
    if json_answer.is_asked(arguments):
        told = partial(_run, lambda: _call(arguments), arguments)
        return _run(lambda: json_answer.run(lambda: _until_a_signal(told)), arguments)
    return _run(lambda: _call(arguments), arguments)


def _run(call: Callable[[], None], arguments: Sequence[str]) -> int:
    try:
        call()
    except EvoflashError as error:
        return _say(str(error), error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        _show_if_debugging(error)
        if "No usable temporary directory" in str(error):  # tempfile's words
            return _say("no folder for temporary files can be written: set TMPDIR to one that can.", 4)
        place = f" ({error.filename})" if error.filename else ""
        return _say(
            f"{error.strerror or error}{place}: check the path, its permissions and the free space.", 1
        )
    except Exception as error:
        _show_if_debugging(error)
        return _say(report(error, arguments), os.EX_SOFTWARE)
    return 0


def _call(arguments: Sequence[str]) -> None:
    _log_to_stderr()
    app()(args=list(arguments))


def _log_to_stderr() -> None:
    """Show evoflash's own log at the level in EVOFLASH_LOG; what libraries log is not for users."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("evoflash: %(message)s"))
    logger = logging.getLogger("evoflash")
    logger.handlers = [handler]
    logger.setLevel(_log_level())


def _log_level() -> int:
    try:
        word = value("log") or ("error" if is_on("quiet") else "warning")
    except UsageError:  # of a config file: the command says it, and --help is shown all the same
        return logging.WARNING
    level = logging.getLevelNamesMapping().get(word.upper())
    if level is None:
        raise UsageError(f"the log's level '{word}' (EVOFLASH_LOG): give debug, info, warning or error.")
    return level


def _show_if_debugging(error: Exception) -> None:
    if is_debugging():
        traceback.print_exception(error)


def _say(message: str, exit_code: int) -> int:
    json_answer.hear_error(message)
    print("evoflash: " + " ".join(message.split()), file=sys.stderr)
    return exit_code


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
    import platform

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
