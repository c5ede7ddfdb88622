"""`evoflash show` shows all that is known about one kernel, or what a run failed at. It only reads."""

from typing import Annotated

import typer

from evoflash.cli.shared_options import Db, Json, RunOption, Verbose
from evoflash.errors import UsageError
from evoflash.views.terminal import json_text, tell


def show(
    *,
    genome_id: Annotated[str | None, typer.Argument(help="A genome id or its first digits.")] = None,
    command: Annotated[bool, typer.Option("--command", help="Print the line that re-evaluates it.")] = False,
    failures: Annotated[
        bool, typer.Option("--failures", help="Count what went wrong, by default in the newest search.")
    ] = False,
    problem: Annotated[
        str | None, typer.Option("--problem", help="Where it was evaluated for several; default: the newest.")
    ] = None,
    gpu: Annotated[
        str | None, typer.Option("--gpu", help="Where it was evaluated for several; default: the newest.")
    ] = None,
    run: RunOption = None,
    db: Db,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Everything known about one kernel.

    Values, status, registers, checks, timings, what the archive says of it, and for what else it was
    evaluated.

    Example: evoflash show 3f2a
    """
    from evoflash.app import kernel_lookup
    from evoflash.views.kernel import describe, describe_failures

    if failures:
        found = kernel_lookup.failures_of(db, run)
        tell(json_text(found.as_dicts()) if as_json else describe_failures(found), whole=as_json)
        return
    if genome_id is None:
        raise UsageError("give a genome id (its first digits do) or --failures.")
    kernel = kernel_lookup.known_kernel(genome_id, db, problem=problem, gpu=gpu, run=run)
    if command:
        from evoflash.app.export import reproducing_commands

        kernel.check_writable()
        typer.echo("\n".join(reproducing_commands(kernel.genome, kernel.problem, kernel.gpu)))
    elif as_json:
        tell(json_text(kernel.as_dicts()), whole=True)
    else:
        tell(describe(kernel))
