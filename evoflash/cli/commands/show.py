"""`evoflash show` shows all that is known about one kernel, or what a run failed at. It only reads."""

from typing import Annotated

import typer

from evoflash.cli.options import Db, Json, Verbose
from evoflash.errors import UsageError
from evoflash.views.terminal import tell


def show(
    *,
    genome_id: Annotated[str | None, typer.Argument(help="A genome id or its first digits.")] = None,
    command: Annotated[bool, typer.Option("--command", help="Print the line that re-evaluates it.")] = False,
    failures: Annotated[
        bool, typer.Option("--failures", help="Count what went wrong in the newest run.")
    ] = False,
    db: Db,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Everything known about one kernel.

    Values, status, registers, checks, timings.

    Example: evoflash show 3f2a
    """
    from evoflash.app.known import find
    from evoflash.store.store import open_store
    from evoflash.views import kernel as report

    with open_store(db, read_only=True) as store:
        if failures:
            tell(report.failures(store, as_json=as_json), whole=as_json)
            return
        if genome_id is None:
            raise UsageError("give a genome id (its first digits do) or --failures.")
        evaluations = find(store, genome_id)
    if command:
        typer.echo(report.command(evaluations[0]))
    else:
        tell(report.as_json(evaluations) if as_json else report.describe(evaluations), whole=as_json)
