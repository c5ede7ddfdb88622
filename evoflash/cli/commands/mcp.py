"""`evoflash mcp` offers the tools of evoflash/mcp/ to a coding agent. Decides nothing."""

from pathlib import Path
from typing import Annotated

import typer

from evoflash.cli.shared_options import Db, Json, Quiet, Verbose
from evoflash.errors import UsageError
from evoflash.extras import install


def mcp(
    *,
    root: Annotated[
        Path, typer.Option("--root", help="The folder below which files may be read and written.")
    ] = Path("."),
    db: Db,
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Offer evoflash's tools to a coding agent.

    By the Model Context Protocol over stdin and stdout, until the client closes them: problems, families,
    checks, evaluations, searches, reports and exports. Needs the extra `mcp`; docs/mcp.md has the tools.

    Example: evoflash mcp --root ~/kernels
    """
    if as_json:
        raise UsageError("stdout is the protocol's, which is JSON: leave --json out.")
    try:
        from evoflash.mcp.server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("evoflash"):
            raise
        raise UsageError(f"the package mcp is not installed: {install('mcp')}") from None
    serve(root, db)
