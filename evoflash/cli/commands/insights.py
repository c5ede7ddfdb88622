"""`evoflash insights` shows what a stored search has learnt. app/insights.py counts."""

from evoflash.cli.shared_options import Db, Json, MaybeGpu, MaybeProblem, Replayed, RunOption, show


def insights(
    *,
    gpu: MaybeGpu = None,
    problem: MaybeProblem = None,
    run: RunOption = None,
    replayed: Replayed = False,
    db: Db,
    as_json: Json = False,
) -> None:
    """What a search has learnt.

    Its operators, its winner's way, which values pay and which fail.

    Example: evoflash insights --gpu l4 --problem mission

    Example: evoflash insights --run 3
    """
    from evoflash.app.insights import insights_of
    from evoflash.views.insights import print_insights

    found = insights_of(db, run, problem=problem, gpu=gpu, replayed=replayed)
    show(found, print_insights, as_json=as_json)
