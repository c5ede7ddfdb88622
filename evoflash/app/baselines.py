"""Times libraries' kernels on a problem, in turns, and stores the times. Prints nothing.

The timing is that of a search's end (gpu/process/finals.py), without candidates.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evoflash.errors import EvoflashError, UsageError
from evoflash.evaluation import Baseline, Basis, RunKey, Timing
from evoflash.extras import install
from evoflash.gpu.baselines import NAMES
from evoflash.gpu.launcher import present_spec
from evoflash.gpu.process.finals import FinalReport, FinalTask, failed_check, row_of
from evoflash.gpu.process.worker import GpuWorker
from evoflash.gpu.timing.noise_floor import environment
from evoflash.notices import say
from evoflash.problem import Problem, parse_problem, parse_workload
from evoflash.specs import GpuSpec
from evoflash.store.store import open_store
from evoflash.written_files import is_dry_run

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

    def rankings(self) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
        """Every workload with every protocol, and the rows that were timed so, fastest first."""
        timings = [(row, timing) for row in self.rows for timing in row.timings]
        for workload, protocol in dict.fromkeys((t.workload, t.protocol) for _, t in timings):
            here = [(row, t) for row, t in timings if (t.workload, t.protocol) == (workload, protocol)]
            best_us = min(t.median_us for _, t in here)
            here.sort(key=lambda pair: pair[1].median_us)
            rows = [_row(row.name, t, best_us) | {"environment": dict(row.environment)} for row, t in here]
            yield workload, protocol, rows

    def as_dict(self) -> dict[str, Any]:
        """`baselines` has a row for each baseline, workload and protocol, fastest first."""
        rows = [row for _, _, rows in self.rankings() for row in rows]
        head = {"problem": str(self.problem), "gpu": self.gpu}
        return head | {"baselines": rows, "absent": dict(self.absent), "wrong": dict(self.wrong)}


def _row(name: str, timing: Timing, best_us: float) -> dict[str, Any]:
    moved = parse_problem(timing.workload).streamed_bytes
    return {
        "name": name,
        "workload": timing.workload,
        "protocol": timing.protocol,
        "median_us": timing.median_us,
        "over_fastest": timing.median_us / best_us,
        "gbps": moved / timing.median_us / 1e3 if moved else None,
        "tflops": parse_workload(timing.workload).reported_flops / timing.median_us / 1e6,
        "p10_us": timing.p10_us,
        "p90_us": timing.p90_us,
        "n": timing.n,
        "sm_clock_mhz": timing.sm_clock_mhz,
        "throttle": timing.throttle,
    }


def parse_names(only: str) -> tuple[str, ...]:
    """The names in a comma-separated list, or all names where it is empty. UsageError for an unknown name."""
    asked = [name.strip() for name in only.split(",") if name.strip()]
    for name in asked:
        if name not in NAMES:
            raise UsageError(f"no baseline is called '{name}': use {', '.join(NAMES)}.")
    return tuple(name for name in NAMES if name in asked) or NAMES


def named_baselines(
    only: str, *, problem: str, gpu: str | None, db: str, seed: int, argv: Sequence[str]
) -> BaselineTimes | None:
    """As time_baselines(), from what a person writes; None of a dry run. DeviceError without the GPU."""
    what, names = parse_problem(problem), parse_names(only)
    spec = present_spec(gpu)
    if is_dry_run():
        say(f"would time {', '.join(names)} for {what} on {spec.name} in turns, and store their times.")
        return None
    say(f"timing {', '.join(names)} in turns; a library may compile its kernels first")
    return time_baselines(what, spec, names, db, seed=seed, argv=argv)


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
        raise EvoflashError(f"no baseline has a time ({why}): {install('baselines')}.")
    return times


def times_of(report: FinalReport, problem: Problem, gpu: str) -> BaselineTimes:
    """What a report says of its baselines."""
    wrong = {name: why for name in report.environment if (why := failed_check(report, name))}
    rows = [row for name in report.environment if (row := row_of(report, name, problem=problem, gpu=gpu))]
    return BaselineTimes(
        problem, gpu, tuple(sorted(rows, key=lambda row: row.score_us)), report.absent, wrong
    )
