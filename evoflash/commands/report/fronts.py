"""Pareto fronts of a run's correct kernels: time against registers, spills, error, energy. Reads no store."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from evoflash.commands.leaderboard.pareto import OBJECTIVES, Objective, pareto_front
from evoflash.commands.report.outcomes import History
from evoflash.commands.report.record import Front, FrontPoint
from evoflash.evaluation import Evaluation
from evoflash.store.rows import score_row

AGAINST = ("registers", "spills", "error", "energy")  # objectives beside latency


def fronts(history: History) -> tuple[Front, ...]:
    """Of each objective that costs time: where the fastest kernel has the least of it, there is no front."""
    own = [evaluation for _, evaluation in history if not evaluation.duplicate_of]
    rows = [_row(each) for each in own if each.is_correct and each.score_us and not each.is_censored]
    found = [_front(rows, OBJECTIVES["latency"], OBJECTIVES[name]) for name in AGAINST]
    return tuple(front for front in found if front is not None)


def _row(each: Evaluation) -> Mapping[str, Any]:
    """Under the names that objectives give the leaderboard's columns."""
    builds = [build for build in each.builds if build.ok]
    return {
        "id": each.genome.id,
        "family": each.genome.family,
        "score_us": each.score_us,
        "registers": max((build.registers for build in builds), default=None),
        "spill_bytes": max((build.spill_bytes for build in builds), default=None),
        "rel_l2": max((verdict.rel_l2 for verdict in each.verdicts), default=None),
        "energy_mj": score_row(each.score_us, each.timings)["energy_mj"],
    }


def _front(rows: Sequence[Mapping[str, Any]], first: Objective, second: Objective) -> Front | None:
    wanted = (first, second)
    known = [row for row in rows if row[second.column] is not None and not math.isnan(row[second.column])]
    if len({row[second.column] for row in known}) < 2:
        return None
    best = pareto_front(known, wanted)
    if len({tuple(row[each.column] for each in wanted) for row in best}) < 2:
        return None  # the fastest has the least of it, too
    on_front = {row["id"] for row in best}
    others = [row for row in known if row["id"] not in on_front]
    return Front(
        objectives=(first.name, second.name),
        units=(first.unit, second.unit),
        points=tuple(_point(row, wanted) for row in best),
        others=tuple(_point(row, wanted) for row in others),
    )


def _point(row: Mapping[str, Any], objectives: Sequence[Objective]) -> FrontPoint:
    return FrontPoint(row["id"], row["family"], tuple(row[each.column] for each in objectives))
