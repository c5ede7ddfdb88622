"""A run's candidates in numbers, with the best so far, rejections and Pareto fronts. Reads no store.

The fronts are of correct kernels, in time against registers, spills, error or energy.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from evoflash.app.objectives import OBJECTIVES, Objective, pareto_front
from evoflash.app.report.record import (
    BestSoFar,
    CandidateRow,
    Front,
    FrontPoint,
    RandomRun,
    Rejection,
    ReportedCost,
    RungCount,
    SearchProgress,
)
from evoflash.app.runs import cost_as_dict
from evoflash.champions.evidence import archived_kernel
from evoflash.evaluation import Basis, Evaluation, Proposal, Run, Rung, faster
from evoflash.gpu.process.outcome import seconds_by_rung
from evoflash.store.rows import score_row
from evoflash.store.run_status import ComputeCost as Charged

History = Sequence[tuple[Proposal, Evaluation]]
RANDOM = "uniform"  # the strategy that is random search
_ON_GPU = (Rung.SMOKE, Rung.CORRECTNESS, Rung.TIMING)
FIRST_LOOK = "first look"  # no rung of its own: the short run that tells what is too slow to be proven
_REASONS = 3  # of a rung and status that are named


def rows(history: History, best: Evaluation | None) -> tuple[CandidateRow, ...]:
    """Every proposal, duplicates too; a duplicate has the outcome of the kernel that it repeats."""
    winner_us = best.score_us if best else None
    return tuple(_row(n, *outcome, winner_us) for n, outcome in enumerate(history, 1))


def _row(n: int, proposal: Proposal, evaluation: Evaluation, winner_us: float | None) -> CandidateRow:
    us = evaluation.learnt_us
    builds = [build for build in evaluation.builds if build.ok]
    return CandidateRow(
        n=n,
        id=evaluation.genome.id,
        family=evaluation.genome.family,
        us=us,
        over_best=us / winner_us if us and winner_us else None,
        status=str(evaluation.status),
        rung=str(evaluation.rung),
        reason=evaluation.reason,
        operator=proposal.operator,
        parents=proposal.parents,
        registers=max((build.registers for build in builds), default=None),
        spill_bytes=max((build.spill_bytes for build in builds), default=None),
        bound=evaluation.bound,
        protocol=evaluation.timings[-1].protocol if evaluation.timings else "",
        is_lower_bound=evaluation.is_censored,
        duplicate_of=evaluation.duplicate_of,
        measured_us=archived_us(evaluation),
    )


def archived_us(evaluation: Evaluation) -> float | None:
    """What the archive measured of a kernel that was only estimated; None where it is not there."""
    if not evaluation.is_estimate:
        return None
    known = archived_kernel(evaluation.genome, evaluation.problem, evaluation.gpu)
    return known.us if known else None


def best_so_far(history: History) -> tuple[BestSoFar, ...]:
    """Where the best correct time fell, by the search's own rule; duplicates are not counted."""
    best, found, count = None, [], 0
    for _, evaluation in history:
        if evaluation.duplicate_of:
            continue
        count += 1
        better = faster(best, evaluation)
        if better is not best and better is not None and better.score_us is not None:
            found.append(BestSoFar(count, better.score_us, better.genome.id))
        best = better
    return tuple(found)


def seed_us(history: History) -> tuple[int, float | None]:
    """How many seeds the search started from, and the time of the fastest correct one."""
    seed = fastest_seed(history)
    return sum(proposal.operator == "seed" for proposal, _ in history), seed.score_us if seed else None


def fastest_seed(history: History) -> Evaluation | None:
    """The fastest correct kernel that the search started from."""
    seeds = [evaluation for proposal, evaluation in history if proposal.operator == "seed"]
    timed = [each for each in seeds if each.is_correct and each.score_us and not each.is_censored]
    return min(timed, key=lambda each: each.score_us or math.inf, default=None)


def progress(run: Run, history: History, random: Sequence[RandomRun]) -> SearchProgress:
    """The best so far beside the seeds and the random searches that are stored."""
    best, (seeds, from_us) = best_so_far(history), seed_us(history)
    evaluated = sum(not evaluation.duplicate_of for _, evaluation in history)
    count = f"{seeds} seeds were tried." if seeds > 1 else "One seed was tried."
    says = [count if seeds else "No proposal of this run is marked as a seed."]
    says.append(_of_random(run, evaluated, best, random))
    return SearchProgress(evaluated, best, seeds, from_us, tuple(random), tuple(says))


def _of_random(run: Run, evaluated: int, best: Sequence[BestSoFar], random: Sequence[RandomRun]) -> str:
    if run.key.search_name == RANDOM:
        return "This run is itself a random search (strategy uniform)."
    if not random:
        where = f"--gpu {run.key.gpu} --problem {run.key.problem}"
        again = f" `evoflash search --strategy {RANDOM} {where}` makes one."
        recorded = run.key.basis is Basis.REPLAYED
        return "No random search of this problem and GPU is stored." + ("" if recorded else again)
    ahead = sum(_is_ahead(best, each, min(evaluated, each.evaluated)) for each in random)
    stored = f"{len(random)} random searches are" if len(random) > 1 else "1 random search is"
    of = f"{ahead} of them" if len(random) > 1 else "it" if ahead else "none"
    return f"{stored} stored for this problem and GPU; after as many evaluations this run is ahead of {of}."


def _is_ahead(best: Sequence[BestSoFar], random: RandomRun, evaluations: int) -> bool:
    mine, theirs = _at(best, evaluations), _at(random.best, evaluations)
    return mine is not None and (theirs is None or mine < theirs)


def _at(best: Sequence[BestSoFar], evaluations: int) -> float | None:
    return min((each.us for each in best if each.evaluations <= evaluations), default=None)


def count_by_rung(history: History) -> tuple[RungCount, ...]:
    """The rungs from the cheapest on; those of a GPU only where one was used.

    After compilation a candidate is looked at briefly, in the emulator or on the GPU. What is too slow then
    is left there: it passed none of the rungs that prove a kernel.
    """
    own = [evaluation for _, evaluation in history if not evaluation.duplicate_of]
    screened = [each for each in own if each.is_screened]
    others = [each for each in own if not each.is_screened]
    is_measured = any(each.basis is Basis.MEASURED or each.rung in _ON_GPU for each in others)
    order = [rung for rung in Rung if is_measured or rung not in _ON_GPU]
    found = []
    for at, rung in enumerate(order):
        came = [each for each in others if order.index(each.rung) >= at]
        rejected = sum(each.rung is rung and each.learnt_us is None for each in came)
        is_before = at <= order.index(Rung.COMPILE)
        found.append(RungCount(str(rung), len(came) + is_before * len(screened), rejected))
        if rung is Rung.COMPILE and screened:
            passed = len(came) - rejected
            found.append(RungCount(FIRST_LOOK, passed + len(screened), 0, len(screened)))
    return tuple(found)


def rejections(history: History) -> tuple[Rejection, ...]:
    """By rung, the cheapest first, and status; each with its commonest reasons."""
    groups: dict[tuple[Rung, str], Counter[str]] = {}
    for _, evaluation in history:
        if evaluation.learnt_us is None and not evaluation.duplicate_of:
            group = groups.setdefault((evaluation.rung, str(evaluation.status)), Counter())
            group[evaluation.reason] += 1
    order = list(Rung)
    found = [
        Rejection(str(rung), status, counts.total(), tuple(counts.most_common(_REASONS)))
        for (rung, status), counts in groups.items()
    ]
    return tuple(sorted(found, key=lambda each: (order.index(Rung(each.rung)), -each.count)))


def took(
    run: Run, history: History, newest: str, charged: Charged | None, price_per_hour: float | None
) -> ReportedCost:
    """Wall clock, GPU, CPU, compiler; in money where a price is given."""
    own = [evaluation for _, evaluation in history if not evaluation.duplicate_of]
    seconds: Counter[str] = Counter()
    for each in own:
        seconds.update(seconds_by_rung(each))
    wall_s = (datetime.fromisoformat(newest) - datetime.fromisoformat(run.created)).total_seconds()
    compiled = sum(build.compile_s for each in own for build in each.builds)
    known = cost_as_dict(charged, price_per_hour)
    return ReportedCost(
        wall_s=max(wall_s, 0.0),
        gpu_minutes=known["gpu_minutes"],
        cpu_minutes=known["cpu_minutes"],
        price_per_hour=price_per_hour,
        price=known.get("price"),
        rungs_s=dict(seconds),
        compile_s=compiled,
    )


AGAINST = ("registers", "spills", "error", "energy")  # objectives beside latency


def fronts(history: History) -> tuple[Front, ...]:
    """Of each objective that costs time: where the fastest kernel has the least of it, there is no front."""
    own = [evaluation for _, evaluation in history if not evaluation.duplicate_of]
    rows = [
        _objective_values(each) for each in own if each.is_correct and each.score_us and not each.is_censored
    ]
    found = [_front(rows, OBJECTIVES["latency"], OBJECTIVES[name]) for name in AGAINST]
    return tuple(front for front in found if front is not None)


def _objective_values(each: Evaluation) -> Mapping[str, Any]:
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
