"""Verdicts on a loaded kernel, on check shapes and at size. Decides nothing, which rungs.py does.

At size inputs stay on the GPU, and so does the output but for the groups that the reference knows: whether
inputs are unchanged, all of it is finite and two runs agree in every bit is found out there, over every byte.
What was timed is judged by the same CUDA graph with inputs that it never saw.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from evoflash.evaluation import Verdict
from evoflash.gpu import arena as memory
from evoflash.gpu import launcher
from evoflash.gpu.arena import Arena, Original
from evoflash.gpu.baselines import LibraryContender
from evoflash.gpu.launcher import LoadedKernel, Stopwatch, alone
from evoflash.gpu.process import cache
from evoflash.gpu.process.check_batch import CheckBatch
from evoflash.gpu.timing.benchmark import Bench, KernelContender
from evoflash.numerics import is_non_finite
from evoflash.operation import (
    ExpectedOutputs,
    Output,
    TestInput,
    Workload,
    operation_of,
)
from evoflash.operations.expectations import outputs_of
from evoflash.validation import metamorphic, validator
from evoflash.validation.cases import case, large_case
from evoflash.validation.plan import CheckLaunch, check_one_by_one
from evoflash.validation.validator import Part

LARGE_LIMIT_S = 20.0  # one launch on a benchmark workload, by the slowest family
SMALL_LIMIT_S = 3.0  # one launch on a check workload
SMOKE_LIMIT_S = 1.0  # the first launch, on the smallest check workload: most hangs show here


@dataclass(frozen=True, slots=True)
class CheckSubject:
    """A kernel loaded for one workload, the run's seed, and how long one launch may take."""

    kernel: LoadedKernel
    workload: Workload
    seed: int
    limit_s: float
    is_deterministic: bool = True  # two runs must agree in every bit


def smoke(subject: CheckSubject) -> str:
    """Empty when a first launch writes finite numbers everywhere; else how many are missing."""
    inputs, _ = case(subject.workload, operation_of(subject.workload).inputs.small[0], subject.seed)
    output = _run(subject, CheckLaunch(inputs))
    for spec in outputs_of(subject.workload, "rows"):
        if missing := int(is_non_finite(output.tensors[spec.name], spec.dtype).sum()):
            return f"{missing} elements of {spec.name} not written, or not finite"
    return ""


def on_check_shapes(subjects: Sequence[CheckSubject]) -> Iterator[Verdict]:
    """A verdict for each kernel on its workload, in their order: all launches in one batch, where it fits
    into the device's memory. Where a verdict is bad the kernel is asked again launch by launch.

    Raises MemoryFaultError, KernelHungError or CuPy's errors before the first verdict.
    """
    workloads = tuple(subject.workload for subject in subjects)
    batch = cache.check_batch(workloads, subjects[0].seed) if subjects else None
    if batch is None:
        yield from map(on_check_shape, subjects)
        return
    limit_s = max(subject.limit_s for subject in subjects)
    exact = all(subject.is_deterministic for subject in subjects)
    kernels = [subject.kernel for subject in subjects]
    for subject, verdict in zip(
        subjects, batch.verdicts(kernels, limit_s=limit_s, is_deterministic=exact), strict=True
    ):
        yield verdict if verdict.passed else _confirm(subject, verdict, batch)


def _confirm(subject: CheckSubject, verdict: Verdict, batch: CheckBatch) -> Verdict:
    """The verdict of launches one by one; where they find nothing, the batch's, if its memory is whole."""
    by_itself = on_check_shape(subject)
    if not by_itself.passed:
        return by_itself
    batch.verify()
    return replace(verdict, reason=f"{verdict.reason} (in a batch of launches)")


def on_check_shape(subject: CheckSubject) -> Verdict:
    """The plan of its workload, one launch at a time."""
    plan, exact = cache.plan(subject.workload, subject.seed), subject.is_deterministic
    return check_one_by_one(plan, partial(_run, subject), is_deterministic=exact)


def first_look(subject: CheckSubject) -> tuple[Verdict, float]:
    """One checked launch at size, and its time in us. A bad verdict needs at_size() to confirm it."""
    workload, seed = subject.workload, subject.seed
    name = operation_of(workload).inputs.at_size[0]
    inputs, expected = large_case(workload, name, seed)
    on_device = cache.inputs(workload, name, seed)
    with alone():
        took_us = _launch(subject, on_device)
        part = cache.arena(workload).part(expected.sample)
    verdict = validator.judge(workload, [(inputs, expected, part)])
    if not verdict.passed:
        cache.verify_inputs(workload, (name,), seed)
    return verdict, took_us


def at_size(subject: CheckSubject) -> Verdict:
    """The inputs of the benchmark's shape against right answers that the device computes, two runs bit for
    bit, and one with groups exchanged: in one batch, where the operation and the memory allow. Else, and
    where a verdict is bad, launch by launch, against the host's answers at a sample.
    """
    batch = cache.size_batch(subject.workload, subject.seed)
    if batch is None:
        return _at_size_alone(subject)
    exact, limit_s = subject.is_deterministic, subject.limit_s
    (verdict,) = batch.verdicts([subject.kernel], limit_s=limit_s, is_deterministic=exact)
    if verdict.passed:
        return verdict
    by_itself = _at_size_alone(subject)
    if not by_itself.passed:
        return by_itself
    batch.verify()
    return verdict


def _at_size_alone(subject: CheckSubject) -> Verdict:
    """The inputs of the benchmark's shape against the reference at a sample; and two runs, bit for bit."""
    workload, seed = subject.workload, subject.seed
    arena, parts, names = cache.arena(workload), [], operation_of(workload).inputs.at_size
    for name in names:
        inputs, expected = large_case(workload, name, seed)
        _launch(subject, cache.inputs(workload, name, seed))
        parts.append((inputs, expected, arena.part(expected.sample)))
    verdict = validator.judge(workload, parts)
    if not verdict.passed:
        cache.verify_inputs(workload, names, seed)
        return verdict
    reason = _repeats(subject, names[0]) if subject.is_deterministic else ""
    return replace(verdict, passed=not reason, reason=reason)


def _repeats(subject: CheckSubject, name: str) -> str:
    """metamorphic.repeats for outputs that stay on the device, where there is room for two."""
    workload = subject.workload
    on_host, _ = large_case(workload, name, subject.seed)
    inputs, arena = cache.inputs(workload, name, subject.seed), cache.arena(workload)
    _launch(subject, inputs)
    first = arena.copy_of_rows()
    if first is None:
        return metamorphic.repeats(lambda x: _run(subject, CheckLaunch(x)), on_host, workload=workload)
    _launch(subject, inputs)
    if not arena.differ_from(first):
        return ""
    reason = metamorphic.differing(arena.as_output(first), arena.output_rows(), workload=workload)
    return reason or "two runs on the same input differ"


def _run(subject: CheckSubject, planned: CheckLaunch) -> Output:
    """One guarded launch, and what it wrote."""
    workload, without = subject.workload, planned.without
    arena = cache.strided_arena(workload) if planned.is_strided else cache.arena(workload)
    _launch(subject, planned.inputs, arena, without=without)
    return arena.output(without=without)


def _launch(
    subject: CheckSubject,
    inputs: TestInput | Original,
    arena: Arena | None = None,
    *,
    without: Collection[str] = (),
) -> float:
    """One guarded launch in its workload's arena, or in that one; microseconds."""
    arena, stream = arena or cache.arena(subject.workload), launcher.new_stream()
    limit_s = subject.limit_s
    return memory.launch(subject.kernel, arena, inputs, stream=stream, limit_s=limit_s, without=without)


_FINITE = 0x3C  # this byte repeated is 1.06 in fp16, 0.0115 in bf16 and fp32
_SLOWER, _LATENCY_US, _AGAIN = 1.5, 1.0, 3  # a replay's own latency is shared by its launches


def judge_replay(
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
    inputs, expected = large_case(workload, name, seed)
    unseen, replay = cache.inputs(workload, name, seed), contender.graph(bench, bench.walk)
    with alone():
        before = arena.inputs
        took_us, output = _replay_on(unseen, replay, contender, bench, expected)
        verdict = validator.judge(workload, [(inputs, expected, output)])
        if verdict.passed and isinstance(contender, KernelContender):
            reason = _known_input_mismatch(contender, bench, is_deterministic=is_deterministic)
            if not reason and timed_us is not None:
                reason = _slowdown(replay, bench, took_us, timed_us)
            verdict = replace(verdict, passed=not reason, reason=reason)
        if before is not None:
            arena.load(before)
        if not verdict.passed:
            cache.verify_inputs(workload, (name,), seed)
    return verdict


def _replay_on(
    unseen: TestInput | Original,
    replay: Callable[[], None],
    contender: KernelContender | LibraryContender,
    bench: Bench,
    expected: ExpectedOutputs,
) -> tuple[float, Output | Part]:
    """Microseconds a launch of the replay with unseen inputs in the first arena, and what is left there."""
    replay()  # the first one pays for loading
    launcher.wait(bench.stream, limit_s=LARGE_LIMIT_S)
    bench.arenas[0].load(unseen)
    if isinstance(contender, LibraryContender):
        contender.refresh()
    took_us = _time_replay(replay, bench)
    if isinstance(contender, LibraryContender):
        output: Output | Part = contender.output()
    else:
        output = bench.arenas[0].part(expected.sample)
    memory.check_memory_of(bench.arenas)
    return took_us, output


def _known_input_mismatch(contender: KernelContender, bench: Bench, *, is_deterministic: bool) -> str:
    """Empty when one of the other input sets, by chance, holds what a launch by itself gives for it."""
    if len(bench.arenas) == 1:
        return ""
    both = _replay_and_launch(
        contender, bench, bench.arenas[int(np.random.default_rng().integers(1, len(bench.arenas)))]
    )
    if both is None:
        return ""
    replayed, launched = both
    reason = metamorphic.drift_of("inputs that it knew", launched, replayed, workload=bench.workload)
    unequal = sum(int((launched.tensors[name] != out).sum()) for name, out in replayed.tensors.items())
    if reason or not is_deterministic or not unequal:
        return reason
    return f"inputs that it knew: {unequal} elements are not those of a launch"


def _replay_and_launch(
    contender: KernelContender, bench: Bench, arena: Arena
) -> tuple[Output, Output] | None:
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


def _slowdown(replay: Callable[[], None], bench: Bench, took_us: float, timed_us: float) -> str:
    """Empty when a launch takes about as long as it did while it was timed; asked again before it is not."""
    limit_us = _SLOWER * timed_us + _LATENCY_US
    if took_us > limit_us:
        took_us = min(_time_replay(replay, bench) for _ in range(_AGAIN))
    if took_us > limit_us:
        return f"a launch that is judged takes {took_us:.1f} us instead of the {timed_us:.1f} us timed"
    return ""


def _time_replay(replay: Callable[[], None], bench: Bench) -> float:
    """Microseconds a launch in one replay over outputs that hold one finite number everywhere."""
    for each in bench.arenas:
        each.fill_outputs(_FINITE, bench.stream)
    stopwatch = Stopwatch(bench.stream)
    replay()
    return stopwatch.stop(limit_s=LARGE_LIMIT_S) / len(bench.arenas)
