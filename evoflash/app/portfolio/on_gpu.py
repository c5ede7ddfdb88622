"""Times a portfolio's kernels on one shape in turns and judges what it timed. Chooses nothing.

It runs in the GPU process, called by session.py. All kernels were checked before on the small and odd
shapes of the ladder (gpu/process/rungs.py).
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from evoflash.app.portfolio.table import WRONG, KernelTime, ShapeTimes
from evoflash.evaluation import Status, Timing
from evoflash.gpu import launcher
from evoflash.gpu.arena import MemoryFaultError
from evoflash.gpu.baselines import BaselineAbsentError, BaselineFailedError, baseline
from evoflash.gpu.launcher import (
    GpuBusyError,
    KernelHungError,
    LaunchRefusedError,
    Stopwatch,
    alone,
    let_go,
    wait,
)
from evoflash.gpu.process import cache
from evoflash.gpu.process.checks import LARGE_LIMIT_S
from evoflash.gpu.process.judged_replays import judge_replay
from evoflash.gpu.process.rungs import GpuTask
from evoflash.gpu.timing.benchmark import Bench, KernelContender, time_interleaved
from evoflash.gpu.timing.paired import beats_physics, compare
from evoflash.gpu.timing.protocols import Pace, StoppingRule, TimingProtocol
from evoflash.isolation import Ending
from evoflash.operation import operation_of
from evoflash.specs import GpuSpec
from evoflash.validation.cases import large_case
from evoflash.workload import Workload

_ROUGH = StoppingRule(min_samples=3, max_samples=3, rel_error=1.0, max_s=10.0)
# Times the fastest: what is further away after one call gets no turns, and after a few not many.
_WORTH_TURNS, _OVERHEAD_US = 3.0, 50.0
_NEAR, _MOST_NEAR = 1.25, 8
_MOST_SCRATCH = 6  # sizes of workspaces in one shape's turns, one of them perhaps none
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ShapeTask:
    """Kernels to be timed on one shape.

    `max_s`: of one kernel's many turns; 0: the few turns suffice. `judges_all`: the outputs of all of them,
    and not only of those near the fastest.
    """

    workload: Workload
    tasks: tuple[GpuTask, ...]
    spec: GpuSpec
    seed: int
    max_s: float
    judges_all: bool = False


def compute_references(workloads: Sequence[Workload], seed: int, threads: int) -> None:
    """What outputs at these shapes are held against, computed on the host before anything is timed."""
    with ThreadPoolExecutor(threads) as pool:
        for workload in workloads:
            pool.submit(large_case, workload, operation_of(workload).inputs.after_timing, seed)


def time_shape(task: ShapeTask) -> Ending[ShapeTimes]:
    """Every kernel in one call, those not far from the fastest in a few turns, those near it in many, and
    judged.

    A kernel that fails a check has its reason in the row. One that hangs or spoils memory ends the call, and
    is to blame only where it was alone: session.py then asks for each by itself.
    """
    return _run_guarded(lambda: _row(task))


def time_libraries(task: ShapeTask, names: Sequence[str]) -> Ending[dict[str, float]]:
    """PyTorch's kernels in turns with the task's one kernel, in us. One that has none for the shape is left
    out.
    """
    return _run_guarded(lambda: _libraries(task, names))


def _run_guarded(work: Callable[[], T]) -> Ending[T]:
    try:
        return Ending(work())
    except KernelHungError as hung:
        return Ending(None, Status.TIMEOUT, str(hung))
    except MemoryFaultError as fault:
        let_go()
        return Ending(None, Status.CORRECTNESS, str(fault))
    except GpuBusyError as busy:
        let_go()
        return Ending(None, Status.UNMEASURED, str(busy))
    except BaselineFailedError as failed:
        let_go()
        return Ending(None, Status.RUNTIME, str(failed))
    except launcher.cuda_errors() as error:
        return Ending(None, Status.RUNTIME, str(error).strip().splitlines()[0])


def _row(task: ShapeTask) -> ShapeTimes:
    bench = cache.bench(task.workload, task.spec, task.seed)
    contenders, absent = _load_contenders(task)
    rng = np.random.default_rng(task.seed)
    times = {each.name: _first_look(each, bench) for each in contenders}
    worth = _with_scratch(_near(contenders, times, _WORTH_TURNS, _OVERHEAD_US))
    times |= _in_turns(worth, bench, _ROUGH, rng, is_rough=True)
    near = _near(worth, times, _NEAR)[:_MOST_NEAR]
    if task.max_s:
        rule = StoppingRule(min_samples=8, max_samples=40, rel_error=1e-3, max_s=task.max_s)
        times |= _in_turns(near, bench, rule, rng, is_rough=False)
    for each in contenders if task.judges_all else near:
        if reason := _wrong(each, bench, times[each.name], task):
            absent[each.name] = f"{WRONG}{reason}"
        else:
            times[each.name] = replace(times[each.name], is_checked=True)
    return ShapeTimes(
        task.workload, {name: time for name, time in times.items() if name not in absent}, absent
    )


def _protocol(bench: Bench) -> TimingProtocol:
    """Cold; a long workload under the GPU's power cap, which is its state when it serves."""
    first, second = bench.protocols
    return first if first.pace is Pace.STEADY else second


def _first_look(contender: KernelContender, bench: Bench) -> KernelTime:
    """One call by itself, after one that pays for loading: some us of the host's are in its time."""
    call = contender.calls(bench)
    with alone():
        call(0)
        wait(bench.stream, limit_s=LARGE_LIMIT_S)
        stopwatch = Stopwatch(bench.stream)
        call(0)
        us = stopwatch.stop(limit_s=LARGE_LIMIT_S)
    return KernelTime(us, us, us, 1, is_rough=True)


def _near(
    contenders: Sequence[KernelContender],
    times: Mapping[str, KernelTime],
    factor: float,
    plus_us: float = 0.0,
) -> list[KernelContender]:
    """Those within the factor of the fastest, fastest first."""
    ranked = sorted(contenders, key=lambda each: times[each.name].us)
    return [each for each in ranked if times[each.name].us <= factor * times[ranked[0].name].us + plus_us]


def _with_scratch(ranked: Sequence[KernelContender]) -> list[KernelContender]:
    """Those that may be timed in turns: a process keeps few large workspaces (gpu/arena.py), and a graph
    must not outlive its own. Kernels with workspaces of one size share it.
    """
    found: list[KernelContender] = []
    seen: set[tuple[int, int]] = set()
    for each in ranked:
        scratch = each.kernel.scratch
        if len({*seen, scratch}) <= _MOST_SCRATCH or not each.kernel.workspace_bytes:
            found.append(each)
            seen.add(scratch)
    return found


def _wrong(contender: KernelContender, bench: Bench, time: KernelTime, task: ShapeTask) -> str:
    """Why the output that was timed, or its time, cannot be right; empty where both are."""
    timing = Timing(str(bench.workload), _protocol(bench).name, time.us, time.low_us, time.high_us, time.n)
    if impossible := beats_physics(timing, task.workload, task.spec):
        return impossible
    return judge_replay(contender, bench, seed=task.seed, timed_us=time.us).reason


def _libraries(task: ShapeTask, names: Sequence[str]) -> dict[str, float]:
    bench = cache.bench(task.workload, task.spec, task.seed)
    (ours,), _ = _load_contenders(task)
    libraries = []
    for name in names:
        with contextlib.suppress(BaselineAbsentError):
            libraries.append(baseline(name, bench))
    if not libraries:
        return {}
    rng = np.random.default_rng(task.seed)
    _, timings = time_interleaved([ours, *libraries], bench, _protocol(bench), rule=_ROUGH, rng=rng)
    return {each.name: timings[each.name].median_us for each in libraries}


def _load_contenders(task: ShapeTask) -> tuple[list[KernelContender], dict[str, str]]:
    found, absent = [], {}
    for each in task.tasks:
        try:
            kernel = each.kernel(task.workload, dict(each.timed)[task.workload])
        except LaunchRefusedError as refused:
            absent[each.genome_id] = str(refused)
        else:
            found.append(KernelContender(each.genome_id, kernel))
    return found, absent


def _in_turns(
    contenders: Sequence[KernelContender],
    bench: Bench,
    rule: StoppingRule,
    rng: np.random.Generator,
    *,
    is_rough: bool,
) -> dict[str, KernelTime]:
    """Times by kernel: the fastest one's median, times each other's ratio to it in the same turns."""
    if not contenders:
        return {}
    protocol = _protocol(bench)
    samples, timings = time_interleaved(contenders, bench, protocol, rule=rule, rng=rng)
    best = min(timings, key=lambda name: timings[name].median_us)
    best_us, found = timings[best].median_us, {}
    for name, sampled in samples.items():
        if is_rough or name == best:
            ends = (min(sampled), max(sampled)) if is_rough else (best_us, best_us)
            found[name] = KernelTime(timings[name].median_us, *ends, len(sampled), is_rough)
        else:
            pair = compare(samples, name, best, workload=str(bench.workload), protocol=protocol.name)
            us, low_us, high_us = (best_us * ratio for ratio in (pair.ratio, pair.low, pair.high))
            found[name] = KernelTime(us, low_us, high_us, len(sampled))
    return found
