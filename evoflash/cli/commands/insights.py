"""`evoflash insights` shows what a stored search has learnt. app/insights.py counts."""

import typer

from evoflash.cli.options import Db, Gpu, Json, MaybeProblem, Replayed
from evoflash.notices import working
from evoflash.views.terminal import stdout_console


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
    from evoflash.app import insights as digest
    from evoflash.problem import canonical
    from evoflash.specs import canonical_gpu
    from evoflash.store.store import open_store
    from evoflash.views import insights as report

    with working("counting what the search has learnt"), open_store(db, read_only=True) as store:
        insights = digest.read_insights(
            store, problem=canonical(problem), gpu=canonical_gpu(gpu), replayed=replayed
        )
    if as_json:
        typer.echo(report.as_json(insights))
    else:
        report.print_insights(insights, stdout_console())
