"""Checks the two sides of a row of genes.toml in a GPU process and times them in turns.

A failure is data. Reads no table and writes no record: gene_ab.py does.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from evoflash import operation
from evoflash.evaluation import Status, Timing
from evoflash.evaluators.prepare import Preparation
from evoflash.gpu import launcher
from evoflash.gpu.arena import MemoryFaultError
from evoflash.gpu.launcher import KernelHungError
from evoflash.gpu.process import rungs
from evoflash.gpu.process.checks import judge_replay
from evoflash.gpu.process.rungs import GpuTask, check_task
from evoflash.gpu.timing.benchmark import Bench, KernelContender, capture, prepare, sample, state_while
from evoflash.gpu.timing.benchmark import summarise as summary_of
from evoflash.gpu.timing.paired import beats_physics, compare
from evoflash.gpu.timing.protocols import StoppingRule, enough
from evoflash.kernels.family import load_family
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.space import Genome
from evoflash.specs import GpuSpec

EFFORT = StoppingRule(min_samples=10, max_samples=60, rel_error=1e-3, max_s=0.8)
_CHECK_LENGTHS = ((3, 40), (113, 203), (67, 509))  # (seq_q, seq_kv); the first one is the smoke test


@dataclass(frozen=True, slots=True)
class Duel:
    """A row's two sides, ready for the GPU process."""

    number: int
    tasks: tuple[GpuTask, GpuTask]


@dataclass(frozen=True, slots=True)
class Duelled:
    """What the GPU process found: a failure, or both timings and their ratio."""

    failure: str = ""
    process_lost: bool = False
    timings: tuple[Timing, ...] = ()
    ratio: tuple[float, float, float] = (0.0, 0.0, 0.0)  # B over A, and its interval
    answer: str = ""  # of B: faster, slower, unclear


def task_of(
    genome: Genome, prepared: Preparation, workload: AttentionWorkload, gpu: GpuSpec, seed: int
) -> GpuTask:
    """What the GPU process needs to check a genome on small shapes and to time it on the workload."""
    family, key = load_family(genome.family), workload.compile_key(gpu.arch)
    return rungs.task_of(
        genome.id,
        gpu,
        prepared.builds,
        lambda each: family.launches(genome, each, gpu),
        checks=(key.workload(2, 2, *lengths) for lengths in _CHECK_LENGTHS),
        timed=(workload,),
        seed=seed,
    )


def fight(duel: Duel) -> Duelled:
    """Checks both sides and times them in turns, in a GPU process; whatever the kernels do is data."""
    for name, task in zip("AB", duel.tasks, strict=True):
        outcome = check_task(task)
        if outcome.status is not Status.CORRECT:
            return Duelled(f"{name}: {outcome.status}: {outcome.reason}", outcome.process_lost)
    try:
        return _timed(duel)
    except KernelHungError as hung:
        return Duelled(f"{Status.TIMEOUT}: {hung}", process_lost=True)
    except MemoryFaultError as fault:
        return Duelled(f"{Status.CORRECTNESS}: {fault}", process_lost=True)
    except launcher.cuda_errors() as error:
        return Duelled(f"{Status.RUNTIME}: {str(error).strip().splitlines()[0]}", process_lost=True)


def _timed(duel: Duel) -> Duelled:
    rng = np.random.default_rng([duel.tasks[0].seed, duel.number])
    pairs = []
    for name, task in zip("AB", duel.tasks, strict=True):
        ((workload, launches),) = task.timed
        pairs.append((KernelContender(name, task.kernel(workload, launches)), _bench(workload, task)))
    samples, timings = _in_turns(pairs, rng=rng)
    for (contender, bench), timing, task in zip(pairs, timings, duel.tasks, strict=True):
        reason = beats_physics(timing, bench.workload, task.spec)
        verdict = judge_replay(contender, bench, seed=task.seed)
        if reason or not verdict.passed:
            return Duelled(f"{contender.name}, as it was timed: {reason or verdict.reason}")
    workload_names = " and ".join(dict.fromkeys(str(bench.workload) for _, bench in pairs))
    found = compare(samples, "B", "A", workload=workload_names, protocol=timings[0].protocol)
    return Duelled(timings=timings, ratio=(found.ratio, found.low, found.high), answer=found.answer)


def _in_turns(
    pairs: Sequence[tuple[KernelContender, Bench]], *, rng: np.random.Generator
) -> tuple[dict[str, list[float]], tuple[Timing, ...]]:
    """As comparison.interleaved, for contenders that may run on workloads of their own."""
    graphs: dict[str, tuple[Callable[[], None], int, Bench]] = {
        contender.name: (*capture(contender, bench, bench.protocols[0]), bench) for contender, bench in pairs
    }
    samples: dict[str, list[float]] = {name: [] for name in graphs}
    replay, _, bench = graphs[pairs[0][0].name]
    prepare(replay, bench, bench.protocols[0])
    started = time.monotonic()
    while not all(enough(x, EFFORT, elapsed_s=(time.monotonic() - started) / 2) for x in samples.values()):
        for name in rng.permutation(list(graphs)):
            replay, launches, bench = graphs[name]
            samples[name].append(sample(replay, bench, bench.protocols[0], launches=launches))
    timings = tuple(
        summary_of(samples[name], bench, bench.protocols[0], state=state_while(replay, bench))
        for name, (replay, _, bench) in graphs.items()
    )
    return samples, timings


@lru_cache(maxsize=3)
def _bench_of(workload: AttentionWorkload, spec: GpuSpec, seed: int) -> Bench:
    return Bench(workload, spec=spec, seed=seed)


def _bench(workload: operation.Workload, task: GpuTask) -> Bench:
    return _bench_of(workload, task.spec, task.seed)
