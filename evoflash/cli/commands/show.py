"""`evoflash show` shows all that is known about one kernel, or what a run failed at. It only reads."""

from typing import Annotated

import typer

from evoflash.cli.options import Db, Json, RunOption, Verbose
from evoflash.errors import UsageError
from evoflash.views.terminal import json_text, tell


def show(
    *,
    genome_id: Annotated[str | None, typer.Argument(help="A genome id or its first digits.")] = None,
    command: Annotated[bool, typer.Option("--command", help="Print the line that re-evaluates it.")] = False,
    failures: Annotated[
        bool, typer.Option("--failures", help="Count what went wrong, by default in the newest search.")
    ] = False,
    run: RunOption = None,
    db: Db,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Everything known about one kernel.

    Values, status, registers, checks, timings.

    Example: evoflash show 3f2a
    """
    from evoflash.app import known
    from evoflash.views.kernel import describe, describe_failures

    if failures:
        found = known.failures_of(db, run)
        tell(json_text(found.as_dicts()) if as_json else describe_failures(found), whole=as_json)
        return
    if genome_id is None:
        raise UsageError("give a genome id (its first digits do) or --failures.")
    evaluations = known.evaluations_of(db, genome_id, run)
    if command:
        from evoflash.app.export import reproducing_commands

        typer.echo("\n".join(reproducing_commands(evaluations[0])))
    elif as_json:
        tell(json_text([each.as_dict() for each in evaluations]), whole=True)
    else:
        tell(describe(evaluations))
