"""What commands share towards the person: lines, tables, Ctrl-C in words. Runs nothing."""

import re
import shutil
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from evoflash.commands.defaults import defaults_of
from evoflash.commands.options import common
from evoflash.commands.termination import kept
from evoflash.settings.values import is_on

if TYPE_CHECKING:
    from rich.console import Console

_PATIENCE_S = 1.0
_LABEL = re.compile(r"\S {2,}(?=\S)")  # two blanks or more part a label from what it labels
_COMMAND = " evoflash export "
_DEEPER = 2  # characters: so much further in goes a line on that has no label
_PIPE_COLUMNS = 180  # of a table that goes to a file or a pipe


def say(message: str) -> None:
    """One line for the person, on stderr; --quiet silences it."""
    if not is_on("quiet"):
        print(f"evoflash: {message}", file=sys.stderr, flush=True)


def tell(text: str, *, whole: bool = False) -> None:
    """What was asked for, on stdout; on a terminal `wrapped`, unless it is to stay whole."""
    if sys.stdout.isatty() and not whole:
        text = wrapped(text, shutil.get_terminal_size().columns)
    print(text)


def wrapped(text: str, width: int) -> str:
    """The text with lines of at most `width` characters.

    A line goes on below what stands beside its labels, and so does not hide them; a command stays in one
    line, which can be copied.
    """
    return "\n".join(_broken(line, width) for line in text.split("\n"))


def _broken(line: str, width: int) -> str:
    if len(line) <= width or _COMMAND in line:
        return line
    labels = [match.end() for match in _LABEL.finditer(line) if match.end() <= width // 2]
    indent = labels[-1] if labels else len(line) - len(line.lstrip()) + _DEEPER
    return textwrap.fill(
        line,
        width,
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
    )


def stdout_console(pipe_columns: int = _PIPE_COLUMNS) -> "Console":
    """Where tables are printed: as wide as the terminal, or `pipe_columns` where stdout is none."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else pipe_columns)


@contextmanager
def working(on: str) -> Iterator[None]:
    """Say what is being done where it takes longer than people like to wait without a word."""
    clock = threading.Timer(_PATIENCE_S, say, (f"{on} ...",))
    clock.daemon = True
    clock.start()
    try:
        yield
    finally:
        clock.cancel()


@contextmanager
def interrupt_in_words(outcome: str = "{kept}; the same command continues") -> Iterator[None]:
    """Ctrl-C inside is one line on stderr and exit code 130.

    `outcome` says what became of the work; `{kept}` in it stands for what the store has. An empty one says
    only that the command was stopped.
    """
    try:
        yield
    except KeyboardInterrupt as stop:
        what = f": {outcome.format(kept=kept(stop))}." if outcome else "."
        say(f"stopped by Ctrl-C{what}")
        raise typer.Exit(130) from None


def program(commands: Sequence[Callable[..., None]], groups: Sequence[typer.Typer] = ()) -> typer.Typer:
    """The program with these commands; its help lists them in this order, and then groups of commands."""
    app = typer.Typer(
        name="evoflash",
        help="Evolve fused-attention CUDA kernels: mutate, compile, check, time, keep.",
        cls=_Commands,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(common)
    for command in commands:
        app.command()(command)
    for group in groups:
        app.add_typer(group)
    return app


def group_of(app: typer.Typer) -> TyperGroup:
    """The program as it is called, again and again; a Typer makes it anew for each call."""
    from typer.main import get_command

    group = get_command(app)
    assert isinstance(group, TyperGroup)
    return group


class _Commands(TyperGroup):
    """The group of all commands: Ctrl-C in one that has no words of its own for it is a line, too."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with interrupt_in_words(""):
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        with interrupt_in_words(""):
            ctx.default_map = defaults_of(self.commands, ctx)
            return super().invoke(ctx)
