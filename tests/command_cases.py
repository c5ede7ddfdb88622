"""Commands in a Python of their own, their exit codes and the one line that an error is. Tests nothing."""

import subprocess
import sys

from places import ROOT, environment
from waiting import LIMIT_S

EXIT_USAGE, EXIT_NO_KERNEL, EXIT_DEVICE = 2, 3, 4


def fresh(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command in a Python of its own."""
    command = [sys.executable, "-m", "evoflash", *arguments]
    given = environment(NO_COLOR="1") | variables
    return subprocess.run(
        command, capture_output=True, text=True, env=given, cwd=ROOT, timeout=LIMIT_S, check=False
    )


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """The last line of stderr, after checking that there was no traceback."""
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("evoflash: ")]
    assert lines, done.stderr
    return lines[-1]
