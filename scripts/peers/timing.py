"""What run.py does in a GPU process: make a few rows ready, then check and time one of them.

A kernel or a library that fails is data. Reads no file of results and writes none.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from evoflash import operation as registry
from evoflash.evaluation import Build, Status, Timing
from evoflash.evaluators.prepare import prepare
from evoflash.gpu import launcher
from evoflash.gpu.arena import MemoryFaultError
from evoflash.gpu.baselines import BaselineAbsentError, BaselineFailedError, LibraryContender, baseline
from evoflash.gpu.baselines.contender import note_in
from evoflash.gpu.launcher import KernelHungError
from evoflash.gpu.process import cache
from evoflash.gpu.process.judged_replays import judge_replay
from evoflash.gpu.process.rungs import GpuTask, check_task, task_of
from evoflash.gpu.timing.benchmark import (
    Bench,
    Contender,
    KernelContender,
    measure,
    time_interleaved,
    time_synced,
)
from evoflash.gpu.timing.paired import (
    PairedComparison,
    beats_physics,
    compare,
    unfinished_work,
)
from evoflash.gpu.timing.protocols import SHORT, Pace, StoppingRule, TimingProtocol
from evoflash.kernels.family import load_family
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.problem import Problem
from evoflash.space import Genome
from evoflash.specs import GpuSpec
from evoflash.workload import Workload as AnyWorkload
from scripts.peers import read_only
from scripts.peers.rows import Ours, workload_of

STEADY = TimingProtocol("cold", True, Pace.STEADY)  # how settings, and kernels of ours, are chosen: no idling


@dataclass(frozen=True, slots=True)
class Setup:
    """What all rows of a process share."""

    spec: GpuSpec
    seed: int
    libraries: tuple[str, ...]
    rounds: Mapping[str, int]  # by pace: samples a contender, in turns
    notes: str  # the file that says which library is under way


@dataclass(frozen=True, slots=True)
class Job:
    """A row and the kernels of ours that were compiled for it; or why none was."""

    row: str
    tasks: tuple[GpuTask, ...]
    failures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Timed:
    """A row: the kernel of ours, all times, each rival's time over ours, what is wrong or absent."""

    genome_id: str = ""
    timings: Mapping[str, tuple[Timing, ...]] = field(default_factory=dict)  # by genome id or library
    comparisons: tuple[PairedComparison, ...] = ()
    wrong: Mapping[str, str] = field(default_factory=dict)  # timed, but its output or its time cannot be
    absent: Mapping[str, str] = field(default_factory=dict)  # library -> reason
    environment: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    looks_us: Mapping[str, float] = field(default_factory=dict)  # short steady times of kernels of ours
    notes: tuple[str, ...] = ()
    failure: str = ""
    process_lost: bool = False


def ready(rows: Mapping[str, Sequence[Ours]], setup: Setup) -> tuple[Job, ...]:
    """Compile what is ours, compute references, have the libraries compile; the GPU is busy meanwhile."""
    note_in(setup.notes)
    jobs = tuple(compiled(row, found, setup) for row, found in rows.items())
    workloads = [workload_of(row) for row in rows]
    cache.precompute_references(_checks(workloads[0], setup), tuple(workloads), setup.seed)
    launcher.warm_up()
    for each in workloads:
        cache.bench(each, setup.spec, setup.seed)
    for name in setup.libraries:  # those of one process share all that a library compiles for
        _rival(name, cache.bench(workloads[0], setup.spec, setup.seed))
    return jobs


def compiled(row: str, found: Sequence[Ours], setup: Setup) -> Job:
    """Our kernels for a row, compiled where that was not done; needs no GPU."""
    problem, spec = Problem((workload_of(row),)), setup.spec
    tasks, failures = [], []
    for each in found:
        prepared = prepare(each.genome, problem, spec, False, setup.seed)
        if prepared.failure:
            failures.append(f"{each.genome.id}: {prepared.failure.status}, {prepared.failure.reason}")
            continue
        tasks.append(_task(each.genome, prepared.builds, problem.workloads[0], setup))
    return Job(row, tuple(tasks), tuple(failures) if found else ("no kernel of ours is known",))


def _task(genome: Genome, builds: Sequence[Build], workload: AnyWorkload, setup: Setup) -> GpuTask:
    family = load_family(genome.family)
    return task_of(
        genome.id,
        setup.spec,
        builds,
        lambda each: family.launches(genome, each, setup.spec),
        checks=_checks(workload, setup),
        timed=(workload,),
        seed=setup.seed,
        is_deterministic=family.is_deterministic,
    )


def _checks(workload: AnyWorkload, setup: Setup) -> tuple[AnyWorkload, ...]:
    """What every candidate is checked on, and the hidden shapes that finalists are."""
    keys = (workload.compile_key(setup.spec.arch),)
    operation = registry.operation_of(workload)
    return (*operation.check_workloads(keys), *operation.hidden_workloads(keys, seed=setup.seed))


def _rival(name: str, bench: Bench) -> LibraryContender | str:
    """The library, with the fastest of its settings where it has any; or why it is absent."""
    try:
        with _steady(bench):
            return baseline(name, bench)
    except BaselineAbsentError as absent:
        return str(absent)


@contextmanager
def _steady(bench: Bench) -> Iterator[None]:
    """Settings are chosen without a quarter of a second of idling before each sample."""
    protocols, bench.protocols = bench.protocols, (STEADY,)
    try:
        yield
    finally:
        bench.protocols = protocols


# ---- a row


def timed(job: Job, setup: Setup) -> Timed:
    """Check our kernels, choose the fastest, time it in turns with the rivals, and judge what was timed."""
    try:
        return _timed(job, setup)
    except KernelHungError as hung:
        return Timed(failure=f"a kernel {hung}", process_lost=True)
    except (MemoryFaultError, BaselineFailedError) as fault:
        return Timed(failure=str(fault), process_lost=True)
    except launcher.cuda_errors() as error:
        return Timed(failure=str(error).strip().splitlines()[0], process_lost=True)


def _timed(job: Job, setup: Setup) -> Timed:
    notes = list(job.failures)
    right = []
    for task in job.tasks:
        outcome = check_task(task)
        if outcome.status is Status.CORRECT:
            right.append(task)
            continue
        notes.append(f"{task.genome_id}: {outcome.status} at {outcome.rung}, {outcome.reason}")
        if outcome.process_lost:
            return Timed(failure=notes[-1], process_lost=True)
    if not right:
        return Timed(failure="; ".join(notes) or "no kernel of ours")
    bench = cache.bench(workload_of(job.row), setup.spec, setup.seed)
    looks_us = {task.genome_id: _look_us(task, bench) for task in right}
    best = min(right, key=lambda task: looks_us[task.genome_id])
    return _in_turns(best, bench, setup, looks_us=looks_us, notes=tuple(notes))


def _contender(task: GpuTask) -> KernelContender:
    ((workload, launches),) = task.timed
    return KernelContender(task.genome_id, task.kernel(workload, launches))


def _look_us(task: GpuTask, bench: Bench) -> float:
    return measure(_contender(task), bench, STEADY, rule=SHORT)[0].median_us


def _in_turns(
    task: GpuTask, bench: Bench, setup: Setup, *, looks_us: Mapping[str, float], notes: tuple[str, ...]
) -> Timed:
    found = {name: _rival(name, bench) for name in setup.libraries}
    libraries = [each for each in found.values() if isinstance(each, LibraryContender)]
    contenders: list[Contender] = [_contender(task), *libraries]
    if isinstance(bench.workload, AttentionWorkload) and bench.workload.seq_q == 1:
        spec = setup.spec
        contenders.append(read_only.fastest(bench, spec.arch, STEADY, sm_count=spec.sm_count))
    rng = np.random.default_rng(setup.seed)
    timings: dict[str, tuple[Timing, ...]] = {}
    comparisons: list[PairedComparison] = []
    for protocol in protocols(bench):
        samples, by_name = time_interleaved(contenders, bench, protocol, rule=rule(protocol, setup), rng=rng)
        timings = {name: (*timings.get(name, ()), timing) for name, timing in by_name.items()}
        comparisons += _over(samples, task.genome_id, bench, protocol)
    wrong = {each.name: why for each in contenders if (why := _wrong(each, bench, timings[each.name], task))}
    return Timed(
        genome_id=task.genome_id,
        timings=timings,
        comparisons=tuple(comparisons),
        wrong=wrong,
        absent={name: each for name, each in found.items() if isinstance(each, str)},
        environment={each.name: each.environment for each in libraries},
        looks_us=looks_us,
        notes=notes,
        failure=wrong.get(task.genome_id, ""),
    )


def protocols(bench: Bench) -> tuple[TimingProtocol, ...]:
    """Cold; for long rows at boost clock, then under the power cap."""
    return bench.protocols if bench.protocols[0].pace is Pace.BOOST else bench.protocols[:1]


def rule(protocol: TimingProtocol, setup: Setup) -> StoppingRule:
    """So many samples a contender, whatever they say."""
    count = setup.rounds[protocol.pace]
    return StoppingRule(min_samples=count, max_samples=count, rel_error=1.0, max_s=float("inf"))


def _over(
    samples: Mapping[str, Sequence[float]], ours: str, bench: Bench, protocol: TimingProtocol
) -> list[PairedComparison]:
    """Each rival's time over ours, from the rounds."""
    workload, name = str(bench.workload), f"final-{protocol.name}"
    rivals = [name for name in samples if name != ours]
    return [compare(samples, each, ours, workload=workload, protocol=name) for each in rivals]


def _wrong(each: Contender, bench: Bench, timings: tuple[Timing, ...], task: GpuTask) -> str:
    """Empty when its output, as it was timed, is right and its time possible."""
    if not isinstance(each, KernelContender | LibraryContender):
        return ""
    for timing in timings:
        if wonder := beats_physics(timing, bench.workload, task.spec):
            return wonder
    is_ours = isinstance(each, KernelContender)
    first = timings[0]
    verdict = judge_replay(each, bench, seed=task.seed, timed_us=first.median_us)
    if not verdict.passed:
        return verdict.reason
    return unfinished_work(first, time_synced(each, bench, bench.protocols[0])) if is_ours else ""
