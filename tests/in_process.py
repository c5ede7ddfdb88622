"""An evoflash command in this process, with the program that is made once. Forks nothing."""

from collections.abc import Mapping
from unittest.mock import patch

from typer import testing

from evoflash.cli.program import app


def invoke(*words: str, env: Mapping[str, str] | None = None) -> testing.Result:
    """What the command wrote, its exit code, and the exception that ended it. Typer by itself makes the whole
    program anew for each command, which takes longer than most commands.
    """
    with patch.object(testing, "_get_command", lambda made: made):
        return testing.CliRunner().invoke(app(), words, env=env)  # type: ignore[arg-type]  # a Typer's group
