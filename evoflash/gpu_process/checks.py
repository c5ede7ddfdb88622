"""Verdicts on a loaded kernel: on check shapes, at size, on what was timed. Decides nothing: rungs.py does.

At size inputs stay on the GPU, and so does the output but for the heads that the reference knows: whether
inputs are unchanged, all of O is finite and two runs agree in every bit is found out there, over every byte.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from evoflash.baselines import LibraryContender
from evoflash.cuda import arena as memory
from evoflash.cuda import device_checks as inspection
from evoflash.cuda import launcher
from evoflash.cuda.arena import Original
from evoflash.cuda.launcher import LoadedKernel, Stopwatch
from evoflash.evaluation import Verdict
from evoflash.gpu_process import cache as kept
from evoflash.problem import Workload
from evoflash.timing.benchmark import Bench, KernelContender
from evoflash.validation import metamorphic, validator
from evoflash.validation.correctness import case, scrutinise
from evoflash.validation.inputs import AFTER_TIMING, AT_SIZE, Trial

LARGE_LIMIT_S = 20.0  # one launch on a benchmark workload, by the slowest family
SMALL_LIMIT_S = 3.0  # one launch on a check workload
SMOKE_LIMIT_S = 1.0  # the first launch, on the smallest check workload: most hangs show here
_FINITE = 0x3C  # this byte repeated is 1.06 in fp16, 0.0115 in bf16 and fp32
_SLOWER, _LATENCY_US, _AGAIN = 1.5, 1.0, 3  # a replay's own latency is shared by its launches


@dataclass(frozen=True, slots=True)
class Subject:
    """A kernel loaded for one workload, the run's seed, and how long one launch may take."""

    kernel: LoadedKernel
    workload: Workload
    seed: int
    limit_s: float
    is_deterministic: bool = True  # two runs must agree in every bit


def smoke(subject: Subject) -> str:
    """Empty when a first launch writes finite numbers everywhere; else how many are missing."""
    trial, _ = case(subject.workload, "normal", subject.seed)
    output = _runner(subject)(trial)
    missing = int(validator.is_non_finite(output.out, subject.workload.dtype).sum())
    return f"{missing} elements of O not written, or not finite" if missing else ""


def on_check_shape(subject: Subject) -> Verdict:
    """Every trial against the reference at every row, the checks that need none, and a launch without LSE."""
    run, workload, exact = _runner(subject), subject.workload, subject.is_deterministic
    verdict = scrutinise(run, workload, seed=subject.seed, is_deterministic=exact)
    if not verdict.passed:
        return verdict
    reason = _without_lse(subject)
    return replace(verdict, passed=not reason, reason=reason)


def _without_lse(subject: Subject) -> str:
    """Empty when O is right, and the same, where the pointer to LSE is null; else how it differs."""
    (trial, expected), limit_s = case(subject.workload, AT_SIZE[0], subject.seed), subject.limit_s
    arena, stream = kept.arena(subject.workload), launcher.new_stream()
    memory.launch(subject.kernel, arena, trial, stream=stream, limit_s=limit_s, want_lse=False)
    without = arena.output(want_lse=False)
    verdict = validator.judge(subject.workload, [(trial, expected, without)])
    reason = verdict.reason
    if verdict.passed and subject.is_deterministic:
        outputs = iter((_runner(subject)(trial), without))
        reason = metamorphic.repeats(lambda _: next(outputs), trial)
    return f"without LSE: {reason}" if reason else ""


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
    reason = _repeats(subject, AT_SIZE[0]) if subject.is_deterministic else ""
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


def of_timed(
    contender: KernelContender | LibraryContender,
    bench: Bench,
    *,
    seed: int,
    timed_us: float | None = None,
    is_deterministic: bool = False,
) -> Verdict:
    """Judge a replay of the timed graph after its first input set was overwritten with inputs never seen.

    All outputs hold finite numbers before, as while it was timed: a kernel cannot tell that it is looked at.
    With `timed_us`, a launch of this replay must not take much longer than one did while it was timed: a
    kernel that finds its result there, and rests, has to work here. And what it left for an input set that it
    knows already must be what one launch by itself gives, to the bit where that is to be expected.
    """
    trial, expected = kept.large(bench.workload, AFTER_TIMING, seed)
    arena, before = bench.arenas[0], bench.arenas[0].inputs
    replay = contender.graph(bench, bench.order(bench.protocols[0], launches=len(bench.arenas)))
    replay()  # the first one pays for loading
    launcher.wait(bench.stream, limit_s=LARGE_LIMIT_S)
    arena.load(kept.inputs(bench.workload, AFTER_TIMING, seed))
    if isinstance(contender, LibraryContender):
        contender.refresh()
    took_us = _replayed_us(replay, bench)
    output = contender.output() if isinstance(contender, LibraryContender) else arena.part(expected.sample)
    for each in bench.arenas:
        each.check_memory()
    verdict = validator.judge(bench.workload, [(trial, expected, output)])
    if verdict.passed and isinstance(contender, KernelContender):
        reason = _known_inputs(contender, bench, is_deterministic=is_deterministic)
        if not reason and timed_us is not None:
            reason = _slower_when_judged(replay, bench, took_us, timed_us)
        verdict = replace(verdict, passed=not reason, reason=reason)
    if before is not None:
        arena.load(before)
    if not verdict.passed:
        kept.verify_inputs(bench.workload, (AFTER_TIMING,), seed)
    return verdict


def _known_inputs(contender: KernelContender, bench: Bench, *, is_deterministic: bool) -> str:
    """Empty when one of the other input sets, by chance, holds what a launch by itself gives for it."""
    if len(bench.arenas) == 1:
        return ""
    arena = bench.arenas[int(np.random.default_rng().integers(1, len(bench.arenas)))]
    assert arena.inputs is not None, "a bench has loaded its arenas"
    replayed = arena.output(want_lse=False)
    memory.launch(contender.kernel, arena, arena.inputs, stream=bench.stream, limit_s=LARGE_LIMIT_S)
    alone = arena.output(want_lse=False)
    reason = metamorphic.moved("inputs that it knew", alone, replayed, workload=bench.workload)
    if reason or not is_deterministic or not (alone.out != replayed.out).any():
        return reason
    return f"inputs that it knew: {int((alone.out != replayed.out).sum())} elements are not those of a launch"


def _slower_when_judged(replay: Callable[[], None], bench: Bench, took_us: float, timed_us: float) -> str:
    """Empty when a launch takes about as long as it did while it was timed; asked again before it is not."""
    limit_us = _SLOWER * timed_us + _LATENCY_US
    if took_us > limit_us:
        took_us = min(_replayed_us(replay, bench) for _ in range(_AGAIN))
    if took_us > limit_us:
        return f"a launch that is judged takes {took_us:.1f} us instead of the {timed_us:.1f} us timed"
    return ""


def _replayed_us(replay: Callable[[], None], bench: Bench) -> float:
    """Microseconds a launch in one replay over outputs that hold one finite number everywhere."""
    for each in bench.arenas:
        each.fill_outputs(_FINITE, bench.stream)
    stopwatch = Stopwatch(bench.stream)
    replay()
    return stopwatch.stop(limit_s=LARGE_LIMIT_S) / len(bench.arenas)
