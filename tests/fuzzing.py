"""What the fuzz tests share: the program run in this process, and what must hold of each ending.

Nothing is replaced: it is cli.run, the handler of unforeseen errors included. Cases repeat (derandomize).
"""

import contextlib
import io
import os
import re
from dataclasses import dataclass
from unittest import mock

from hypothesis import HealthCheck, settings

from evoflash.cli import program as cli

# docs/commands.md; 70 is a mistake in evoflash, which is what is sought
DOCUMENTED = {0, 1, 2, 3, 4, 130, 143}
CASES_OF_AN_OPTION, CASES_OF_A_FILE = 7, 120
# The files that a user may write, by what tests/cli/test_fuzz_files.py makes of them.
FILES = ("gpu", "template", "operator", "strategy", "config", "recorded space", "database")
_OURS = re.compile(r"evoflash: \S.*")
_SEEDED = settings(
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def cases(count: int) -> settings:
    """So many cases, the same in every run."""
    return settings(_SEEDED, max_examples=count)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ended."""

    code: int
    out: str
    err: str


def run(*arguments: str) -> Ending:
    """The command in this process; AssertionError where it ends as none may.

    What it sets in the environment, as -q does, ends with it: later tests are not to be quiet.
    """
    out, err = io.StringIO(), io.StringIO()
    kept = mock.patch.dict(os.environ)
    with kept, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.run_command(arguments)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
    ending = Ending(code, out.getvalue(), err.getvalue())
    check(ending, arguments)
    return ending


def check(ending: Ending, arguments: tuple[str, ...]) -> None:
    """A documented exit code, no traceback, and for an error one clear line or the lines of a usage error."""
    told = f"evoflash {' '.join(map(repr, arguments))}\n-> {ending.code}\n{ending.err}"
    assert ending.code in DOCUMENTED, told
    assert "Traceback" not in ending.err + ending.out, told
    assert "unexpected error" not in ending.err, told
    if ending.code in (0, 130):
        return
    lines = ending.err.splitlines()
    if lines and lines[0].startswith("Usage:"):
        if "Commands:" in lines:
            return  # the help of the program or of a group, where no command was named
        assert any(line.startswith("Error: ") and len(line) > 12 for line in lines), told
        return
    # Findings of doctor and check go to stdout; there the exit code alone says that something was found.
    assert lines or (ending.code == 1 and ending.out), told
    assert all(_OURS.fullmatch(line) for line in lines), told
