"""The command `evoflash insights`. It parses, calls and prints; digest.py counts."""

import typer

from evoflash.commands.options import Db, Gpu, Json, MaybeProblem, Replayed
from evoflash.commands.terminal import stdout_console, working


def insights(
    *,
    gpu: Gpu = None,
    problem: MaybeProblem = None,
    replayed: Replayed = False,
    db: Db,
    as_json: Json = False,
) -> None:
    """What the newest search has learnt.

    Its operators, its winner's way, which values pay and which fail.

    Example: evoflash insights --gpu l4 --problem mission
    """
    from evoflash.commands.insights import digest, report
    from evoflash.gpu import known_name
    from evoflash.problem import canonical
    from evoflash.store.store import open_store

    with working("counting what the search has learnt"), open_store(db, read_only=True) as store:
        insights = digest.read(store, problem=canonical(problem), gpu=known_name(gpu), replayed=replayed)
    if as_json:
        typer.echo(report.as_json(insights))
    else:
        report.print_insights(insights, stdout_console())
