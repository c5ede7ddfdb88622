"""`evoflash new` writes files to begin an extension of one's own from. app/new_files.py does the work."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from evoflash.notices import say


class What(StrEnum):
    """What can be added without touching the package."""

    family = "family"
    mutation = "mutation"
    gpu = "gpu"
    strategy = "strategy"


def new(
    what: Annotated[What, typer.Argument(help="What to begin.")],
    name: Annotated[str, typer.Argument(help="Its name: lower-case letters, digits and underscores.")],
    into: Annotated[
        Path | None,
        typer.Option(
            help="The extension folder.",
            show_default="the first of EVOFLASH_EXTENSIONS, or ./evoflash-extensions",
        ),
    ] = None,
) -> None:
    """Write a file of your own to begin from.

    Write a working kernel family, mutation operator, GPU or strategy of your own, and its test.

    Example: evoflash new strategy annealing --into ~/kernels
    """
    from evoflash.app import new_files as files

    folder = files.folder_for(into)
    written = files.write(what.value, name, folder)
    for path in written:
        typer.echo(path)
    if not files.is_found(folder):
        say(f"to have it found: export EVOFLASH_EXTENSIONS={folder}")
    say(f"to try it: python -m pytest {written[-1]}")
