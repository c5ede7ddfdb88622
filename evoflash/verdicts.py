"""Verdicts on a loaded kernel: on check shapes, at size, on what was timed. Decides nothing: ladder.py does.

At size inputs stay on the GPU, and so does the output but for the heads that the reference knows: whether
inputs are unchanged, all of O is finite and two runs agree in every bit is found out there, over every byte.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from evoflash import inspection, kept, launcher, memory, metamorphic, validator
from evoflash.baselines import SdpaContender
from evoflash.benchmark import Bench, KernelContender
from evoflash.evaluation import Verdict
from evoflash.launcher import LoadedKernel
from evoflash.memory import Original
from evoflash.problem import Workload
from evoflash.trials import AFTER_TIMING, ALL, AT_SIZE, Trial

LARGE_LIMIT_S = 20.0  # one launch on a benchmark workload, by the slowest family
SMALL_LIMIT_S = 3.0  # one launch on a check workload


@dataclass(frozen=True, slots=True)
class Subject:
    """A kernel loaded for one workload, the run's seed, and how long one launch may take."""

    kernel: LoadedKernel
    workload: Workload
    seed: int
    limit_s: float


def smoke(subject: Subject) -> str:
    """Empty when a first launch writes finite numbers everywhere; else how many are missing."""
    trial, _ = kept.small(subject.workload, "normal", subject.seed)
    output = _runner(subject)(trial)
    missing = int(validator.is_non_finite(output.out, subject.workload.dtype).sum())
    return f"{missing} elements of O not written, or not finite" if missing else ""


def on_check_shape(subject: Subject) -> Verdict:
    """Every trial against the reference at every row, and the checks that need none."""
    run, workload, seed = _runner(subject), subject.workload, subject.seed
    trials = [kept.small(workload, name, seed) for name in ALL]
    verdict = validator.judge(workload, ((trial, expected, run(trial)) for trial, expected in trials))
    if not verdict.passed:
        return verdict
    ordinary = trials[0][0]
    reason = metamorphic.repeats(run, ordinary) or _without_reference(run, ordinary, workload, seed)
    return replace(verdict, passed=not reason, reason=reason)


def _without_reference(run: validator.Kernel, trial: Trial, workload: Workload, seed: int) -> str:
    if workload.causal:
        return metamorphic.hides_the_future(run, trial, workload=workload)
    return metamorphic.ignores_order(run, trial, workload=workload, rng=np.random.default_rng(seed))


def first_look(subject: Subject) -> tuple[Verdict, float]:
    """One checked launch at size, and its time in us. A bad verdict needs at_size() to confirm it."""
    workload, seed = subject.workload, subject.seed
    trial, expected = kept.large(workload, AT_SIZE[0], seed)
    took_us = _launcher(subject)(kept.inputs(workload, AT_SIZE[0], seed))
    part = kept.arena(workload).part(expected.sample)
    return validator.judge(workload, [(trial, expected, part)]), took_us


def at_size(subject: Subject) -> Verdict:
    """The trials of the benchmark's shape against the reference at a sample; and two runs, bit for bit."""
    workload, seed, run = subject.workload, subject.seed, _launcher(subject)
    arena, parts = kept.arena(workload), []
    for name in AT_SIZE:
        trial, expected = kept.large(workload, name, seed)
        run(kept.inputs(workload, name, seed))
        parts.append((trial, expected, arena.part(expected.sample)))
    verdict = validator.judge(workload, parts)
    if not verdict.passed:
        kept.verify_inputs(workload, AT_SIZE, seed)
        return verdict
    reason = _repeats(subject, AT_SIZE[0])
    return replace(verdict, passed=not reason, reason=reason)


def _repeats(subject: Subject, name: str) -> str:
    """metamorphic.repeats for outputs that stay on the device, where there is room for two."""
    trial, _ = kept.large(subject.workload, name, subject.seed)
    inputs, run = kept.inputs(subject.workload, name, subject.seed), _launcher(subject)
    arena = kept.arena(subject.workload)
    run(inputs)
    first = arena.copy_of_output()
    if first is None:
        return metamorphic.repeats(_runner(subject), trial)
    run(inputs)
    if not inspection.differ(first, arena.buffers["O"].device_bytes):
        return ""
    outputs = iter((arena.as_output(first), arena.output(want_lse=False)))
    return metamorphic.repeats(lambda _: next(outputs), trial) or "two runs on the same input differ"


def _runner(subject: Subject) -> validator.Kernel:
    arena, stream = kept.arena(subject.workload), launcher.new_stream()
    limit_s = subject.limit_s
    return lambda trial: memory.run_once(subject.kernel, arena, trial, stream=stream, limit_s=limit_s)


def _launcher(subject: Subject) -> Callable[[Trial | Original], float]:
    arena, stream = kept.arena(subject.workload), launcher.new_stream()
    limit_s = subject.limit_s
    return lambda inputs: memory.launch(subject.kernel, arena, inputs, stream=stream, limit_s=limit_s)


def of_timed(contender: KernelContender | SdpaContender, bench: Bench, *, seed: int) -> Verdict:
    """Judge a replay of the timed graph after its first input set was overwritten with inputs never seen."""
    trial, expected = kept.large(bench.workload, AFTER_TIMING, seed)
    arena, before = bench.arenas[0], bench.arenas[0].inputs
    replay = contender.graph(bench, bench.order(bench.ways[0], launches=len(bench.arenas)))
    arena.load(kept.inputs(bench.workload, AFTER_TIMING, seed))
    arena.poison(bench.stream)
    if isinstance(contender, SdpaContender):
        contender.refresh()
    replay()
    launcher.wait(bench.stream, limit_s=LARGE_LIMIT_S)
    output = contender.output() if isinstance(contender, SdpaContender) else arena.part(expected.sample)
    for each in bench.arenas:
        each.check_memory()
    if before is not None:
        arena.load(before)
    verdict = validator.judge(bench.workload, [(trial, expected, output)])
    if not verdict.passed:
        kept.verify_inputs(bench.workload, (AFTER_TIMING,), seed)
    return verdict
