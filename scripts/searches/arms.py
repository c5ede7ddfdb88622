"""Search and its control arm at equal budget on one problem, then both winners and the baselines in turns.

    python -m scripts.searches.arms --gpu h200 --problem mission --budget 200 -o FILE.json

It needs the GPU. The control draws uniform valid genomes of one family, by default the one that usually wins:
that favours it. Both arms run on this machine, one after the other or, with --control-gpu, at once on two
GPUs of one kind, from their own databases and the same kernel cache; the verdict comes from one interleaved
run on the first of these GPUs at the end. Decides nothing and fits nothing.
"""

import argparse
import json
import math
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from evoflash import __version__
from evoflash.app.search import plan as planning
from evoflash.app.search.session import strategy_of
from evoflash.evaluation import Evaluation
from evoflash.evaluators.finals import promote, proven
from evoflash.evaluators.measured import MeasuredEvaluator
from evoflash.gpu.launcher import present_gpu
from evoflash.gpu.process.finals import FinalReport
from evoflash.gpu.process.rungs import GpuTask
from evoflash.gpu.timing.noise_floor import environment
from evoflash.gpu.timing.paired import PairedComparison
from evoflash.search import search
from evoflash.space import Genome
from evoflash.store.store import open_store
from scripts.records import command, write_record

PROTOCOL = (
    "CUDA-graph replay, contenders in turns in one process, medians, 99.8 % intervals; cold: inputs rotated "
    "over at least twice the L2, hot: not rotated; every kernel writes O and LSE"
)


@dataclass(frozen=True, slots=True)
class Arm:
    """What one arm's search came to."""

    strategy: str
    search_s: float
    spent: int
    statuses: dict[str, int]
    families: dict[str, int]
    searched_us: float
    promoted: list[GpuTask]
    genomes: dict[str, Genome]  # of the promoted
    course: list[tuple[int, float]]  # evaluations spent, best time so far in us, at each improvement


def run_arm(
    plan: planning.SearchPlan, evaluates: MeasuredEvaluator, *, budget: int, time_limit_s: float, keep: int
) -> Arm:
    """Search from an empty database; an arm without a correct kernel ends the script."""
    with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/arm.db") as store:
        run = store.begin(
            plan.key,
            gpu_hash=plan.gpu.hash,
            budget=budget,
            argv=sys.argv,
            environment=environment(),
            fresh=True,
        )
        started = time.monotonic()
        search(strategy_of(plan), evaluates, store, run, budget=budget, time_limit_s=time_limit_s)
        elapsed = time.monotonic() - started
        promoted = [each.task for each in proven(promote(evaluates, store, run, count=keep), store, run)]
        history = [evaluation for _, evaluation in store.history(run)]
        best, spent = store.best_of(run), store.spent_budget(run)
    if best is None or best.score_us is None or not promoted:
        raise SystemExit(f"{plan.key.search_name}: no correct kernel in {spent} evaluations")
    counted = [evaluation for evaluation in history if not evaluation.duplicate_of]
    kept = {task.genome_id for task in promoted}
    return Arm(
        strategy=plan.key.search_name,
        search_s=elapsed,
        spent=spent,
        statuses=dict(Counter(str(e.status) for e in counted)),
        families=dict(Counter(e.genome.family for e in counted)),
        searched_us=best.score_us,
        promoted=promoted,
        genomes={e.genome.id: e.genome for e in counted if e.genome.id in kept},
        course=_course(history),
    )


def _course(history: list[Evaluation]) -> list[tuple[int, float]]:
    best, spent, course = math.inf, 0, []
    for evaluation in history:
        spent += not evaluation.duplicate_of
        score_us = evaluation.score_us
        if evaluation.is_correct and not evaluation.is_censored and score_us is not None and score_us < best:
            best = score_us
            course.append((spent, score_us))
    return course


def winner(report: FinalReport, arm: Arm) -> str:
    """The arm's finalist with the best time of the ranked protocol in the final run."""
    ids = [task.genome_id for task in arm.promoted if task.genome_id in report.timings]
    return min(ids, key=lambda each: report.timings[each][0].median_us)


def ratios(report: FinalReport, first: str, second: str) -> list[dict[str, Any]]:
    """How many times as fast `first` is as `second`, by protocol, with the interval."""
    return [_ratio(c, first) for c in report.comparisons if {c.first, c.second} == {first, second}]


def _ratio(c: PairedComparison, first: str) -> dict[str, Any]:
    # c.ratio is time of c.first over time of c.second.
    flip = c.first == first
    values = (1 / c.ratio, 1 / c.high, 1 / c.low) if flip else (c.ratio, c.low, c.high)
    names = ("speedup", "speedup_low", "speedup_high")
    return {"protocol": c.protocol, **dict(zip(names, values, strict=True))}


def record(
    plan: planning.SearchPlan, arms: tuple[Arm, Arm], report: FinalReport, *, budget: int
) -> dict[str, Any]:
    """Everything that the tables and a sceptic need."""
    default, control = arms
    ours, theirs = winner(report, default), winner(report, control)
    rivals = [name for name in report.timings if name in report.environment]
    return {
        "command": command(),
        "made_by": "scripts.searches.arms",
        "problem": str(plan.problem),
        "gpu": present_gpu().device_name,
        "date": date.today().isoformat(),
        "evoflash": __version__,
        "budget": budget,
        "protocol": PROTOCOL,
        "search_s": default.search_s,
        "counts": default.statuses,
        "correct_of_compiled": _correct_of_compiled(default.statuses),
        "best": {"score_us": report.timings[ours][0].median_us, "genome": _genome(default, ours)},
        "comparisons": [{**each, "rival": rival} for rival in rivals for each in ratios(report, ours, rival)],
        "over_control": ratios(report, ours, theirs) if ours != theirs else [],
        "arms": {arm.strategy: _arm(arm, report, winner(report, arm)) for arm in arms},
        "timings": {name: [asdict(t) for t in timings] for name, timings in report.timings.items()},
        "wrong": {n: [v.reason for v in vs if not v.passed] for n, vs in report.verdicts.items()},
        "absent": dict(report.absent),
        "environment": {k: dict(v) for k, v in report.environment.items()},
    }


def _correct_of_compiled(statuses: dict[str, int]) -> float:
    compiled = sum(n for status, n in statuses.items() if status not in ("compile", "constraints"))
    return statuses.get("correct", 0) / max(1, compiled)


def _arm(arm: Arm, report: FinalReport, best: str) -> dict[str, Any]:
    return {
        "search_s": arm.search_s,
        "spent": arm.spent,
        "statuses": arm.statuses,
        "families": arm.families,
        "winner": _genome(arm, best),
        "winner_us": report.timings[best][0].median_us,
        "searched_us": arm.searched_us,
        "course": arm.course,
    }


def _genome(arm: Arm, genome_id: str) -> dict[str, Any]:
    genome = arm.genomes[genome_id]
    return {"id": genome.id, "family": genome.family, "values": genome.as_dict()}


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--problem", required=True)
    parser.add_argument("--budget", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--control-family", default="flash_mma")
    parser.add_argument("--control-gpu", help="CUDA_VISIBLE_DEVICES of the control arm, run at the same time")
    parser.add_argument("--time-limit", type=float, default=600.0, help="of each arm, in seconds")
    parser.add_argument("--keep", type=int, default=2, help="finalists of each arm")
    parser.add_argument("-o", "--output", type=Path, required=True)
    return parser.parse_args()


def _plan(args: argparse.Namespace, strategy: str, family: str | None) -> planning.SearchPlan:
    return planning.plan(
        gpu=args.gpu,
        problem=args.problem,
        strategy=strategy,
        seed=args.seed,
        family=family,
        evaluator="gpu",
        archive=False,  # strategies are compared, not what they were shipped with
    )


def _searched(plan: planning.SearchPlan, evaluates: MeasuredEvaluator, args: argparse.Namespace) -> Arm:
    arm = run_arm(plan, evaluates, budget=args.budget, time_limit_s=args.time_limit, keep=args.keep)
    said = {"arm": arm.strategy, "searched_us": arm.searched_us, "spent": arm.spent, "search_s": arm.search_s}
    print(json.dumps({**said, "course": arm.course}), flush=True)  # outlives a final run that is killed
    return arm


def _control(args: argparse.Namespace) -> Arm:
    plan = _plan(args, "uniform", args.control_family)
    with MeasuredEvaluator(plan.problem, plan.gpu, seed=plan.seed) as evaluates:
        return _searched(plan, evaluates, args)


def _control_elsewhere(args: argparse.Namespace) -> Arm:
    """In a process of its own: CUDA reads the variable when it is first used."""
    os.environ["CUDA_VISIBLE_DEVICES"] = args.control_gpu
    return _control(args)


def _both(
    plan: planning.SearchPlan, evaluates: MeasuredEvaluator, args: argparse.Namespace
) -> tuple[Arm, Arm]:
    if args.control_gpu is None:
        return _searched(plan, evaluates, args), _control(args)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as elsewhere:
        control = elsewhere.submit(_control_elsewhere, args)
        return _searched(plan, evaluates, args), control.result()


def main() -> None:
    """Both arms, the final run, the file."""
    args = arguments()
    plan = _plan(args, "evolution", None)
    with MeasuredEvaluator(plan.problem, plan.gpu, seed=plan.seed) as evaluates:
        arms = _both(plan, evaluates, args)
        finalists = {task.genome_id: task for arm in arms for task in arm.promoted}
        report = evaluates.in_turns(list(finalists.values()))
    if report is None:
        raise SystemExit("the final run failed: see the warning above.")
    found = record(plan, arms, report, budget=args.budget)
    write_record(args.output, found)
    print(json.dumps({"best": found["best"], "over_control": found["over_control"]}, indent=None))


if __name__ == "__main__":
    main()
