"""Prints what a command answers, wrapped to the width of the terminal. Runs nothing."""

import io
import json
import math
import re
import shutil
import sys
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evoflash.version import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

_LABEL = re.compile(r"\S {2,}(?=\S)")  # two blanks or more part a label from what it labels
_COMMAND = " evoflash export "
_DEEPER = 2  # characters: so much further in goes a line on that has no label
PIPE_COLUMNS = 180  # of a table that goes to a file or a pipe


def tell(text: str, *, whole: bool = False) -> None:
    """What was asked for, on stdout; on a terminal `wrapped`, unless it is to stay whole."""
    if sys.stdout.isatty() and not whole:
        text = wrap(text, shutil.get_terminal_size().columns)
    print(text)


def json_text(facts: Any, *, indent: int | None = 2) -> str:
    """What a record's `as_dict` says, or a list of such, as JSON. The document, or each record of a list,
    says which version of the schema it has.
    """
    versioned = _with_version(facts)
    try:
        return json.dumps(versioned, indent=indent, allow_nan=False)
    except ValueError:  # an error or a time that is no number, for which JSON has no word
        return json.dumps(_finite(versioned), indent=indent)


def _finite(facts: Any) -> Any:
    if isinstance(facts, float):
        return facts if math.isfinite(facts) else None
    if isinstance(facts, Mapping):
        return {name: _finite(each) for name, each in facts.items()}
    return list(map(_finite, facts)) if isinstance(facts, list | tuple) else facts


def _with_version(facts: Any) -> Any:
    if isinstance(facts, Mapping):
        return {"schema_version": SCHEMA_VERSION, **facts}
    return list(map(_with_version, facts)) if isinstance(facts, list | tuple) else facts


def error_facts(message: str, exit_code: int) -> dict[str, Any]:
    """An error as programs read it; `help` says what to do, which is how a message ends."""
    first, _, more = re.sub(r"(?<=[.?!]) (?=[A-Z`])", "\n", message, count=1).partition("\n")
    parts = re.split(r"[:;] (?=[a-z`])", first, maxsplit=1)
    todo = f"{parts[1]} {more}".strip() if len(parts) > 1 else more or "run the command with --help."
    return {
        "schema_version": SCHEMA_VERSION,
        "status": "error",
        "exit_code": exit_code,
        "message": message,
        "help": todo,
    }


def four_digits(number: float) -> str:
    """`11.80`, `0.5150`, `895.0`, `9877`: four significant digits, zeros too; whole numbers from 1000 on."""
    return f"{number:#.4g}".rstrip(".") if number < 1000 else f"{number:.0f}"


def wrap(text: str, width: int) -> str:
    """The text with lines of at most `width` characters.

    A line goes on below what stands beside its labels, and so does not hide them; a command stays in one
    line, which can be copied.
    """
    return "\n".join(_wrap_line(line, width) for line in text.split("\n"))


def _wrap_line(line: str, width: int) -> str:
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


def as_text(print_on: "Callable[[Console], None]") -> str:
    """What is printed on a console, as a text without colours."""
    from rich.console import Console

    text = io.StringIO()
    print_on(Console(file=text, width=PIPE_COLUMNS))
    return text.getvalue().rstrip("\n")


def stdout_console(pipe_columns: int = PIPE_COLUMNS) -> "Console":
    """Where tables are printed: as wide as the terminal, or `pipe_columns` where stdout is none."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else pipe_columns)
