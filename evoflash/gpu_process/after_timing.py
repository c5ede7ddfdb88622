"""The verdict on what was timed: the same graph, with inputs that it never saw. rungs.py says what follows.

Nothing of another process runs meanwhile: it would be in the time that is compared.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from evoflash.baselines import LibraryContender
from evoflash.cuda import arena as memory
from evoflash.cuda import launcher
from evoflash.cuda.arena import Arena, Original
from evoflash.cuda.launcher import Stopwatch
from evoflash.cuda.sharing import alone
from evoflash.evaluation import Verdict
from evoflash.gpu_process import cache
from evoflash.gpu_process.checks import LARGE_LIMIT_S
from evoflash.operation import Expected, Output, TestInput
from evoflash.operation.registry import operation_of
from evoflash.timing.benchmark import Bench, KernelContender
from evoflash.validation import metamorphic, validator
from evoflash.validation.validator import Part

_FINITE = 0x3C  # this byte repeated is 1.06 in fp16, 0.0115 in bf16 and fp32
_SLOWER, _LATENCY_US, _AGAIN = 1.5, 1.0, 3  # a replay's own latency is shared by its launches


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
    workload, name, arena = bench.workload, operation_of(bench.workload).inputs.after_timing, bench.arenas[0]
    inputs, expected = cache.large(workload, name, seed)
    unseen, replay = cache.inputs(workload, name, seed), contender.graph(bench, bench.walk)
    with alone():
        before = arena.inputs
        took_us, output = _replayed_on(unseen, replay, contender, bench, expected)
        verdict = validator.judge(workload, [(inputs, expected, output)])
        if verdict.passed and isinstance(contender, KernelContender):
            reason = _known_inputs(contender, bench, is_deterministic=is_deterministic)
            if not reason and timed_us is not None:
                reason = _slower_when_judged(replay, bench, took_us, timed_us)
            verdict = replace(verdict, passed=not reason, reason=reason)
        if before is not None:
            arena.load(before)
        if not verdict.passed:
            cache.verify_inputs(workload, (name,), seed)
    return verdict


def _replayed_on(
    unseen: TestInput | Original,
    replay: Callable[[], None],
    contender: KernelContender | LibraryContender,
    bench: Bench,
    expected: Expected,
) -> tuple[float, Output | Part]:
    """Microseconds a launch of the replay with unseen inputs in the first arena, and what is left there."""
    replay()  # the first one pays for loading
    launcher.wait(bench.stream, limit_s=LARGE_LIMIT_S)
    bench.arenas[0].load(unseen)
    if isinstance(contender, LibraryContender):
        contender.refresh()
    took_us = _replayed_us(replay, bench)
    if isinstance(contender, LibraryContender):
        output: Output | Part = contender.output()
    else:
        output = bench.arenas[0].part(expected.sample)
    memory.check_memory_of(bench.arenas)
    return took_us, output


def _known_inputs(contender: KernelContender, bench: Bench, *, is_deterministic: bool) -> str:
    """Empty when one of the other input sets, by chance, holds what a launch by itself gives for it."""
    if len(bench.arenas) == 1:
        return ""
    both = _left_and_alone(
        contender, bench, bench.arenas[int(np.random.default_rng().integers(1, len(bench.arenas)))]
    )
    if both is None:
        return ""
    replayed, launched = both
    reason = metamorphic.moved("inputs that it knew", launched, replayed, workload=bench.workload)
    unequal = sum(int((launched.tensors[name] != out).sum()) for name, out in replayed.tensors.items())
    if reason or not is_deterministic or not unequal:
        return reason
    return f"inputs that it knew: {unequal} elements are not those of a launch"


def _left_and_alone(contender: KernelContender, bench: Bench, arena: Arena) -> tuple[Output, Output] | None:
    """The rows that a replay left in an arena, and those of a launch by itself; None where they are the same
    to the bit, which the device says.
    """
    assert arena.inputs is not None, "a bench has loaded its arenas"
    kept = arena.copy_of_rows()
    left = arena.output_rows() if kept is None else None
    memory.launch(contender.kernel, arena, arena.inputs, stream=bench.stream, limit_s=LARGE_LIMIT_S)
    if kept is not None and not arena.differ_from(kept):
        return None
    return left or arena.as_output(kept or {}), arena.output_rows()


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
