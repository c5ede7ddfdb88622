"""Times the libraries' attention on a problem, in turns, and stores the times. Prints nothing.

The timing is that of a search's end (gpu/process/finals.py), without candidates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evoflash.errors import EvoflashError
from evoflash.evaluation import Baseline, Basis, RunKey
from evoflash.gpu.process.finals import FinalReport, FinalTask, failed_check, row_of
from evoflash.gpu.process.worker import GpuWorker
from evoflash.gpu.timing.noise_floor import environment
from evoflash.problem import Problem
from evoflash.specs import GpuSpec
from evoflash.store.store import open_store

STRATEGY = "baselines"  # the name of their runs in the store: no search
_LIMIT_S = 1500.0  # libraries may compile for minutes on their first use


@dataclass(frozen=True, slots=True)
class BaselineTimes:
    """What the baselines of a problem reach on this machine's GPU, and why some of them have no row."""

    problem: Problem
    gpu: str
    rows: tuple[Baseline, ...]  # fastest first
    absent: Mapping[str, str]  # by "baseline on workload": why it was not timed
    wrong: Mapping[str, str]  # why a baseline's output failed its check, by baseline


def time_baselines(
    problem: Problem, spec: GpuSpec, names: Sequence[str], db: str, *, seed: int, argv: Sequence[str]
) -> BaselineTimes:
    """Time the baselines in turns, in a process of their own, and store them as a run of their own.

    EvoflashError when none of them has a time.
    """
    task = FinalTask((), problem.workloads, spec, seed, baselines=tuple(names), limit_s=_LIMIT_S)
    with open_store(db) as store:
        with GpuWorker(timed=problem.workloads, seed=seed) as worker:
            ending = worker.finalists(task).result()
        if ending.value is None:
            raise EvoflashError(f"the baselines could not be timed ({ending.reason}): choose fewer, --only.")
        times = times_of(ending.value, problem, spec.name)
        if times.rows:
            key = RunKey(str(problem), spec.name, Basis.MEASURED, STRATEGY, seed)
            run = store.begin(
                key, gpu_hash=spec.hash, budget=0, argv=argv, environment=environment(), fresh=True
            )
            for row in times.rows:
                store.add_baseline(run, row)
    if not times.rows:
        why = "; ".join(f"{name}: {reason}" for name, reason in {**times.absent, **times.wrong}.items())
        raise EvoflashError(f'no baseline has a time ({why}): pip install "evoflash[baselines]".')
    return times


def times_of(report: FinalReport, problem: Problem, gpu: str) -> BaselineTimes:
    """What a report says of its baselines."""
    wrong = {name: why for name in report.environment if (why := failed_check(report, name))}
    rows = [row for name in report.environment if (row := row_of(report, name, problem=problem, gpu=gpu))]
    return BaselineTimes(
        problem, gpu, tuple(sorted(rows, key=lambda row: row.score_us)), report.absent, wrong
    )
