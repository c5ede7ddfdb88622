"""`evoflash insights` shows what a stored search has learnt. app/insights.py counts."""

from evoflash.cli.options import Db, Gpu, Json, MaybeProblem, Replayed, show


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
    from evoflash.app.insights import newest_insights
    from evoflash.views.insights import print_insights

    show(newest_insights(db, problem=problem, gpu=gpu, replayed=replayed), print_insights, as_json=as_json)
