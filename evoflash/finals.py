"""The last timing: finalists and baselines in turns, in a GPU process that did nothing else before.

Decides nothing: every pair is compared, every output judged, and the report says all of it.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from evoflash import launcher
from evoflash.baselines import BACKENDS, BaselineAbsentError, SdpaContender, baseline
from evoflash.benchmark import FINAL, Bench, KernelContender, Way
from evoflash.comparison import Comparison, beats_physics, compare, interleaved
from evoflash.evaluation import Status, Timing, Verdict
from evoflash.gpu import GpuSpec
from evoflash.isolation import Ending
from evoflash.ladder import GpuTask
from evoflash.launcher import KernelHungError
from evoflash.memory import MemoryFaultError
from evoflash.problem import Workload
from evoflash.verdicts import of_timed

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FinalTask:
    """Candidates and baselines to be timed in turns; the tasks share their timed workloads."""

    tasks: tuple[GpuTask, ...]
    workloads: tuple[Workload, ...]
    spec: GpuSpec
    seed: int
    baselines: tuple[str, ...] = tuple(BACKENDS)
    limit_s: float = 600.0


@dataclass(frozen=True, slots=True)
class FinalReport:
    """Final timings by genome id or baseline name, and every pair compared on every workload and protocol."""

    timings: Mapping[str, tuple[Timing, ...]]
    comparisons: tuple[Comparison, ...]
    verdicts: Mapping[str, tuple[Verdict, ...]]  # of what was timed, and whether its time is possible
    absent: Mapping[str, str]  # baseline on a workload -> why it was not timed
    environment: Mapping[str, Mapping[str, str]]  # by baseline name


def run_finals(task: FinalTask) -> Ending[FinalReport]:
    """Time everything in turns, in a GPU process that did nothing else before."""
    try:
        return Ending(_finals(task))
    except KernelHungError as hung:
        return Ending(None, Status.TIMEOUT, f"a finalist {hung}")
    except MemoryFaultError as fault:
        return Ending(None, Status.CORRECTNESS, f"a finalist {fault}")
    except launcher.cuda_errors() as error:
        return Ending(None, Status.RUNTIME, str(error).strip().splitlines()[0])


def _finals(task: FinalTask) -> FinalReport:
    rng = np.random.default_rng(task.seed)
    reports = [_finals_on(workload, task, rng=rng) for workload in task.workloads]
    return FinalReport(
        timings=_joined([report.timings for report in reports]),
        comparisons=tuple(itertools.chain.from_iterable(report.comparisons for report in reports)),
        verdicts=_joined([report.verdicts for report in reports]),
        absent={name: why for report in reports for name, why in report.absent.items()},
        environment={name: found for report in reports for name, found in report.environment.items()},
    )


def _joined(parts: Sequence[Mapping[str, tuple[T, ...]]]) -> dict[str, tuple[T, ...]]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: tuple(x for part in parts for x in part.get(name, ())) for name in names}


def _finals_on(workload: Workload, task: FinalTask, *, rng: np.random.Generator) -> FinalReport:
    bench = Bench(workload, spec=task.spec, seed=task.seed)
    libraries, absent = _libraries(task, bench)
    contenders: list[KernelContender | SdpaContender] = [*_finalists(task, workload), *libraries]
    timings: list[Mapping[str, tuple[Timing, ...]]] = []
    comparisons: list[Comparison] = []
    for way in bench.ways:
        samples, found = interleaved(contenders, bench, way, effort=FINAL, rng=rng)
        timings.append({name: (timing,) for name, timing in found.items()})
        comparisons += _every_pair(samples, workload, way, rng=rng)
    by_name = _joined(timings)
    return FinalReport(
        timings=by_name,
        comparisons=tuple(comparisons),
        verdicts={each.name: (_verdict(each, bench, by_name[each.name], task),) for each in contenders},
        absent=absent,
        environment={library.name: library.environment for library in libraries},
    )


def _every_pair(
    samples: Mapping[str, Sequence[float]], workload: Workload, way: Way, *, rng: np.random.Generator
) -> list[Comparison]:
    protocol = f"final-{way.protocol}"
    return [
        compare(samples, first, second, workload=str(workload), protocol=protocol, rng=rng)
        for first, second in itertools.combinations(samples, 2)
    ]


def _verdict(
    contender: KernelContender | SdpaContender, bench: Bench, timings: tuple[Timing, ...], task: FinalTask
) -> Verdict:
    verdict = of_timed(contender, bench, seed=task.seed)
    wonders = [reason for t in timings if (reason := beats_physics(t, bench.workload, task.spec))]
    return replace(verdict, passed=False, reason=wonders[0]) if wonders else verdict


def _finalists(task: FinalTask, workload: Workload) -> list[KernelContender]:
    return [
        KernelContender(each.genome_id, each.kernel(workload, dict(each.timed)[workload]))
        for each in task.tasks
    ]


def _libraries(task: FinalTask, bench: Bench) -> tuple[list[SdpaContender], dict[str, str]]:
    """The baselines that run here, and why the others do not."""
    found, absent = [], {}
    for name in task.baselines:
        try:
            found.append(baseline(name, bench))
        except BaselineAbsentError as reason:
            absent[f"{name} on {bench.workload}"] = str(reason)
    return found, absent
