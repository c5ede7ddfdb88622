"""Verdicts on a loaded kernel, on check shapes and at size. Decides nothing, which rungs.py does.

At size inputs stay on the GPU, and so does the output but for the groups that the reference knows: whether
inputs are unchanged, all of it is finite and two runs agree in every bit is found out there, over every byte.
What was timed is judged by judged_replays.py.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from evoflash.evaluation import Verdict
from evoflash.gpu import arena as memory
from evoflash.gpu import launcher
from evoflash.gpu.arena import Arena, Original
from evoflash.gpu.launcher import LoadedKernel, alone
from evoflash.gpu.process import cache
from evoflash.gpu.process.check_batch import CheckBatch
from evoflash.numerics import is_non_finite
from evoflash.operation import operation_of
from evoflash.operations.expectations import outputs_of
from evoflash.validation import metamorphic, validator
from evoflash.validation.cases import case, large_case
from evoflash.validation.plan import CheckLaunch, check_one_by_one
from evoflash.workload import Output, TestInput, Workload

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
    """A verdict for each kernel on its workload, in their order: all launches in one batch, but for workloads
    that it has no memory for. Where a verdict is bad the kernel is asked again launch by launch.

    Raises MemoryFaultError, KernelHungError or CuPy's errors before the first verdict.
    """
    if not subjects:
        return
    batch, alone = cache.check_batch(tuple(subject.workload for subject in subjects), subjects[0].seed)
    together = [subject for subject in subjects if subject.workload not in alone]
    limit_s = max(subject.limit_s for subject in subjects)
    exact = all(subject.is_deterministic for subject in subjects)
    kernels = [subject.kernel for subject in together]
    found = iter(batch.verdicts(kernels, limit_s=limit_s, is_deterministic=exact) if batch else ())
    for subject in subjects:
        if batch is None or subject.workload in alone:
            yield on_check_shape(subject)
        else:
            verdict = next(found)
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
