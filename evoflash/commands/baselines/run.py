"""Times the baselines of a problem alone, in turns, and turns what finals say of a baseline into its row.

Prints nothing; the contest is finals.py's, without candidates.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from evoflash.commands.doctor.examine import environment
from evoflash.cuda.launcher import present_gpu, spec_of
from evoflash.errors import DeviceError, EvoflashError
from evoflash.evaluation import Baseline, Basis, score
from evoflash.gpu import GpuSpec, load_gpu
from evoflash.gpu_process.finals import FinalReport, FinalTask
from evoflash.gpu_process.worker import GpuWorker
from evoflash.problem import Problem
from evoflash.store.rows import FINAL
from evoflash.store.store import RunKey, open_store

log = logging.getLogger(__name__)
STRATEGY = "baselines"  # the name of their runs in the store: no search
_LIMIT_S = 1500.0  # libraries may compile for minutes on their first use


@dataclass(frozen=True, slots=True)
class Rivals:
    """The baselines of a problem on this machine's GPU: rows, and why others have none, by baseline."""

    problem: Problem
    gpu: str
    rows: tuple[Baseline, ...]  # fastest first
    absent: Mapping[str, str]  # by baseline and workload: not installed, or no kernel for it
    wrong: Mapping[str, str]  # ran, and failed the check of its output


def present_spec(gpu: str | None) -> GpuSpec:
    """This machine's GPU with the driver's attributes; DeviceError when there is none, or it is not `gpu`."""
    wanted = load_gpu(gpu) if gpu else None
    device = present_gpu()
    spec = spec_of(device)
    if wanted and wanted.name != spec.name:
        raise DeviceError(f"baselines are timed on the GPU that is here, a {spec.name}: leave --gpu out.")
    return replace(spec, **dict(device.attributes))  # type: ignore[arg-type]  # they are all numbers


def time_baselines(
    problem: Problem, spec: GpuSpec, names: Sequence[str], db: str, *, seed: int, argv: Sequence[str]
) -> Rivals:
    """Time them in turns in a process of their own and store them as a run of their own.

    EvoflashError when none of them has a time.
    """
    task = FinalTask((), problem.workloads, spec, seed, baselines=tuple(names), limit_s=_LIMIT_S)
    with open_store(db) as store:
        with GpuWorker(timed=problem.workloads, seed=seed) as worker:
            ending = worker.finalists(task).result()
        if ending.value is None:
            raise EvoflashError(f"the baselines could not be timed ({ending.reason}): choose fewer, --only.")
        found = rivals(ending.value, problem, spec.name)
        if found.rows:
            key = RunKey(str(problem), spec.name, Basis.MEASURED, STRATEGY, seed)
            run = store.begin(
                key, gpu_hash=spec.hash, budget=0, argv=argv, environment=environment(), fresh=True
            )
            for row in found.rows:
                store.add_baseline(run, row)
    if not found.rows:
        why = "; ".join(f"{name}: {reason}" for name, reason in {**found.absent, **found.wrong}.items())
        raise EvoflashError(f'no baseline has a time ({why}): pip install "evoflash[baselines]".')
    return found


def rivals(report: FinalReport, problem: Problem, gpu: str) -> Rivals:
    """What a report says of its baselines."""
    wrong = {name: why for name in report.environment if (why := _wrong(report, name))}
    rows = [row for name in report.environment if (row := row_of(report, name, problem=problem, gpu=gpu))]
    return Rivals(problem, gpu, tuple(sorted(rows, key=lambda row: row.score_us)), report.absent, wrong)


def row_of(report: FinalReport, name: str, *, problem: Problem, gpu: str) -> Baseline | None:
    """A baseline's row; None, and a warning, where its own output failed the check, and None where it is
    absent on a workload: its score would be over fewer than the others'.
    """
    if wrong := _wrong(report, name):
        log.warning("baseline %s is left out, its own output fails the check: %s", name, wrong)
        return None
    timings = report.timings[name]
    if {timing.workload for timing in timings} != {str(workload) for workload in problem.workloads}:
        return None
    score_us = score([timing.median_us for timing in timings if timing.protocol in FINAL])
    return Baseline(name, str(problem), gpu, timings, score_us, dict(report.environment[name]))


def _wrong(report: FinalReport, name: str) -> str:
    return next((verdict.reason for verdict in report.verdicts[name] if not verdict.passed), "")
