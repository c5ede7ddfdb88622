"""The command line: `main`, and the list of the commands, which stand in commands/. Decides nothing.

Data goes to stdout, everything else to stderr. Typer and the commands are imported by `main`, not with this
module: until they are, Ctrl-C and SIGTERM end the program with one line.
"""

import os
import sys
from typing import TYPE_CHECKING

from evoflash.commands.termination import EXIT_CODE, Terminated, end_on_signals, kept, leave_on_signals
from evoflash.errors import EvoflashError

if TYPE_CHECKING:
    import typer


def application() -> "typer.Typer":
    """The program; its help lists the commands in this order."""
    import typer

    from evoflash.commands import export, families, gpus, show
    from evoflash.commands.baselines import command as baselines
    from evoflash.commands.best import command as best
    from evoflash.commands.check import command as check
    from evoflash.commands.compare import command as compare
    from evoflash.commands.doctor import command as doctor
    from evoflash.commands.insights import command as insights
    from evoflash.commands.ladder import command as ladder
    from evoflash.commands.leaderboard import command as leaderboard
    from evoflash.commands.options import common
    from evoflash.commands.record import command as record
    from evoflash.commands.remeasure import command as remeasure
    from evoflash.commands.replay import command as replay
    from evoflash.commands.search import command as search
    from evoflash.commands.terminal import Commands

    app = typer.Typer(
        name="evoflash",
        help="Evolve fused-attention CUDA kernels: mutate, compile, check, time, keep.",
        cls=Commands,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(common)
    for command in (
        search.search,
        best.best,
        leaderboard.leaderboard,
        show.show,
        export.export,
        remeasure.remeasure,
        insights.insights,
        replay.replay,
        record.record,
        ladder.ladder,
        check.check,
        baselines.baselines,
        compare.compare,
        families.families,
        gpus.gpus,
        doctor.doctor,
    ):
        app.command()(command)
    return app


def main() -> None:
    """The console script: one line and a documented exit code for everything that can go wrong."""
    leave_on_signals()
    app = application()
    from evoflash.commands.options import log_to_stderr

    log_to_stderr()
    end_on_signals()
    try:
        app()
    except EvoflashError as error:
        sys.exit(_say(str(error), error.exit_code))
    except Terminated as stop:
        sys.exit(_say(f"stopped by SIGTERM: {kept(stop)}; the same command continues.", EXIT_CODE))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        sys.exit(
            _say(f"{error.strerror or error}{place}: check the path, its permissions and the free space.", 1)
        )


def _say(message: str, exit_code: int) -> int:
    print("evoflash: " + " ".join(message.split()), file=sys.stderr)
    return exit_code
