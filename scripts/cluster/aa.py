"""One kernel timed on every GPU of this machine: are its times the same once they are ratios to the anchor?

    python -m scripts.cluster.aa --gpus all --each 40 -o scripts/cluster/records/aa-h200x2.json

The anchor is the archive's kernel for the problem, its time that of the archive; the kernel is a seed of
another family. Each GPU proves the kernel beside the anchor again and again, as a search does. Per GPU: the
kernel's time (normalised, as it would be stored) and the anchor's own (absolute), with intervals; for each
pair of GPUs the ratio of the normalised times. Needs GPUs of one model; nothing is searched.
"""

import argparse
import json
import math
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from evoflash.app.search import plan as planning
from evoflash.champions import champion_today
from evoflash.errors import DeviceError, NoKernelError
from evoflash.evaluation import Status
from evoflash.evaluators.cluster.connection import connect, gpu_kind
from evoflash.evaluators.cluster.pools import ClusterGpus
from evoflash.evaluators.cluster.serving import private_cluster
from evoflash.evaluators.measured import task_template
from evoflash.evaluators.prepare import compile_only
from evoflash.gpu import launcher as visible_devices
from evoflash.gpu.process.outcome import GpuOutcome
from evoflash.gpu.process.rungs import Anchor, GpuTask
from evoflash.gpu.timing.paired import RatioInterval, interval
from evoflash.gpu.timing.relative import factors
from evoflash.problem import Problem
from evoflash.space import Genome
from scripts.records import command, write_record

ALLOWED = 0.005  # how far apart two GPUs' normalised times of one kernel may be


def task_of(
    problem: Problem, plan: planning.SearchPlan, kernel: Genome, anchor: Genome, anchor_us: float
) -> GpuTask:
    """The kernel beside the anchor. NoKernelError where there is no other family."""
    questions = task_template(problem, plan.gpu, seed=plan.seed)
    ours, theirs = (
        questions.task_of(each, compile_only(each, problem, plan.gpu)) for each in (kernel, anchor)
    )
    times = tuple(anchor_us for _ in problem.workloads)
    return replace(ours, anchor=Anchor(theirs, times))


def other_family(plan: planning.SearchPlan, anchor: Genome) -> Genome:
    """A seed of another family than the anchor's: ratios of two kernels are what searches compare."""
    for field in plan.fields:
        if field.family.name != anchor.family and field.seeds:
            return field.seeds[0]
    raise NoKernelError("no other family has a seed for this problem: name another --problem.")


def timed(gpus: ClusterGpus, task: GpuTask, count: int) -> Iterator[GpuOutcome]:
    """The task's outcomes, whichever GPU they are of. DeviceError for one that is not correct."""
    waiting = [gpus.submit(task) for _ in range(count)]
    for each in waiting:
        outcome = each.result()
        if outcome.status is not Status.CORRECT:
            raise DeviceError(f"the kernel did not pass: {outcome.status}, {outcome.reason}")
        yield outcome


def summary(outcomes: Sequence[GpuOutcome]) -> dict[str, Any]:
    """For each GPU its times, and for each pair of GPUs their ratios."""
    logs = defaultdict[str, list[float]](list)
    for each in outcomes:
        assert each.score_us is not None, "it is correct and timed"
        logs[each.environment["gpu_uuid"]].append(math.log(each.score_us))
    absolute = [each.as_dict() for each in factors(each.environment for each in outcomes)]
    times = {gpu: {"n": len(mine), **asdict(interval(mine))} for gpu, mine in sorted(logs.items())}
    pairs = [_pair(first, second, logs) for first, second in combinations(sorted(logs), 2)]
    return {"normalised_us": times, "anchor_on_each_gpu": absolute, "pairs": pairs}


def _pair(first: str, second: str, logs: dict[str, list[float]]) -> dict[str, Any]:
    ours, theirs = interval(logs[first]), interval(logs[second])
    ratio = RatioInterval(ours.ratio / theirs.ratio, ours.low / theirs.high, ours.high / theirs.low)
    is_same = 1 / (1 + ALLOWED) < ratio.ratio < 1 + ALLOWED
    return {"gpus": [first, second], **asdict(ratio), "within_0.5_percent": is_same}


def measured(problem: str, each: int) -> dict[str, Any]:
    """On all visible GPUs. DeviceError without one."""
    devices = visible_devices.devices()
    plan = planning.plan(gpu=None, problem=problem, strategy="uniform", seed=0, family=None, evaluator="gpu")
    champion = champion_today(plan.problem, plan.gpu)
    if champion is None:
        raise NoKernelError(f"the archive has no kernel for {plan.problem} on {plan.gpu.name}.")
    kernel = other_family(plan, champion.genome)
    task = task_of(plan.problem, plan, kernel, champion.genome, champion.us)
    with private_cluster(gpus=devices, model=plan.gpu.name) as address, connect(address) as connection:
        make = partial(ClusterGpus, connection, gpu_kind(plan.gpu.name))
        gpus = make(checks=task_checks(task), timed=plan.problem.workloads, seed=plan.seed)
        try:
            outcomes = list(timed(gpus, task, each * len(devices)))
        finally:
            gpus.close()
    return {"kernel": str(kernel), "anchor": str(champion.genome), **summary(outcomes)}


def task_checks(task: GpuTask) -> tuple[Any, ...]:
    """The workloads that the task is checked on."""
    return tuple(workload for workload, _ in task.checks)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpus", default="all")
    parser.add_argument("--problem", default="mission")
    parser.add_argument("--each", type=int, default=40, help="times on each GPU")
    parser.add_argument("-o", type=Path, required=True)
    args = parser.parse_args()
    visible_devices.restrict(args.gpus)
    found = {"made_by": command(), "cores": len(os.sched_getaffinity(0)), **measured(args.problem, args.each)}
    write_record(args.o, found)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
