"""`evoflash families` shows the kernel families, their params and checks. It compiles nothing."""

from typing import Annotated

import typer

from evoflash.cli.shared_options import Json
from evoflash.views.terminal import json_text, stdout_console


def families(
    name: Annotated[str | None, typer.Argument(help="One family; default: all of them.")] = None,
    *,
    explain: Annotated[
        bool, typer.Option("--explain", help="Also what each gene is, and each check in words.")
    ] = False,
    as_json: Json = False,
) -> None:
    """The kernel families, their genes and their checks.

    Example: evoflash families flash_mma --explain
    """
    from evoflash.app import catalogue
    from evoflash.views.catalogue import describe_families

    found = catalogue.families(name)
    if as_json:
        typer.echo(json_text([each.as_dict() for each in found]))
    else:
        typer.echo(describe_families(found, stdout_console(100).width, explain=explain))
