"""Judges what was timed, as it was timed: the same graphs, against right answers. Decides nothing.

Right answers are those of every input set, one of which, by chance, holds inputs that the kernel has never
seen. A kernel must not be able to rest where it finds its own result: outputs hold finite numbers before, as
while they were timed, and a launch that is judged must take as long as one of the replay that was timed. That
one is timed again beside it: both have one clock, the same neighbours on the GPU, and the inputs that were
timed, since unseen ones may be of more work (lengths of sequences). Where the neighbours leave no answer,
that is said of the GPU and not of the kernel (GpuBusyError).

Right answers are the device's (right_answers.py), of every input set; where the operation has no kernel for
them, or memory is short, the host's, of two.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import median
from typing import Any

import numpy as np

from evoflash.evaluation import Verdict
from evoflash.gpu.arena import Arena, Original, check_memory_of, check_workspaces
from evoflash.gpu.baselines import LibraryContender
from evoflash.gpu.comparisons import ComparisonBatch, RowComparison, Side, holds_non_finite, read_results
from evoflash.gpu.launcher import GpuBusyError, LoadedKernel, Stopwatch, alone, present_gpu, wait
from evoflash.gpu.memory import POISON, allocate, has_room, workspace
from evoflash.gpu.process import cache
from evoflash.gpu.process.checks import LARGE_LIMIT_S
from evoflash.gpu.process.right_answers import RightRows, compute_right, has_device_reference
from evoflash.gpu.timing.benchmark import Bench, KernelContender
from evoflash.operation import operation_of
from evoflash.operations.expectations import outputs_of
from evoflash.validation import validator
from evoflash.validation.cases import large_case
from evoflash.validation.validator import Errors, judge_errors
from evoflash.workload import ExpectedOutputs, TestInput, Workload

_FINITE = 0x3C  # this byte repeated is 1.06 in fp16, 0.0115 in bf16 and fp32
_MOST_ANSWERS = 2 << 30  # bytes of right answers for the input sets of one bench
_KNOWN = "inputs that it knew"


def judge_replay(
    contender: KernelContender | LibraryContender,
    bench: Bench,
    *,
    seed: int,
    timed_us: float | None = None,
    is_called: bool = False,
) -> Verdict:
    """Judge the outputs of every graph that was captured on the bench, with `is_called` also of single calls.

    With `timed_us`, what a launch took, also whether one that is judged takes as long: GpuBusyError where
    that cannot be said. Raises MemoryFaultError, KernelHungError or CuPy's errors.
    """
    workload, name, busy = bench.workload, operation_of(bench.workload).inputs.after_timing, ""
    at = int(np.random.default_rng().integers(len(bench.arenas)))
    case, arena = large_case(workload, name, seed), bench.arenas[at]
    unseen = cache.inputs(workload, name, seed)
    with alone():
        before = arena.inputs
        if isinstance(contender, LibraryContender):
            verdict = _library_verdict(contender, bench, at, unseen, case)
        else:
            answers = _answers_of(bench)
            arena.load(unseen)
            right = _unseen_right(workload, seed)
            verdict = _outputs(contender, bench, answers, _Unseen(at, case, right), is_called=is_called)
            if verdict.passed and timed_us is not None:
                if before is not None:
                    arena.load(before)
                reason, busy = _pace(contender, bench, answers, timed_us)
                verdict = replace(verdict, passed=not reason, reason=reason)
        if before is not None:
            arena.load(before)
        if not verdict.passed:
            cache.verify_inputs(workload, (name,), seed)
    if busy:
        raise GpuBusyError(busy)
    return verdict


def _library_verdict(
    contender: LibraryContender,
    bench: Bench,
    at: int,
    unseen: TestInput | Original,
    case: tuple[TestInput, ExpectedOutputs],
) -> Verdict:
    """Its outputs lie elsewhere, and it may work on copies of its inputs."""
    replay = contender.graph(bench, bench.walk)
    _run(replay, bench)  # the first one pays for loading
    bench.arenas[at].load(unseen)
    contender.refresh()
    _run(replay, bench)
    output = contender.output(at)
    check_memory_of(bench.arenas)
    return validator.judge(bench.workload, [(*case, output)])


def _run(replay: Callable[[], None], bench: Bench) -> None:
    replay()
    wait(bench.stream, limit_s=LARGE_LIMIT_S)


# ---- what is right ----


@dataclass(frozen=True, slots=True)
class _Unseen:
    """The input set with unseen inputs, and their right answers: the host's, and the device's if it can."""

    at: int
    case: tuple[TestInput, ExpectedOutputs]
    right: RightRows | None

    def errors(self, bench: Bench) -> Errors:
        (inputs, expected), arena = self.case, bench.arenas[self.at]
        if self.right is None:
            return validator.measure(bench.workload, inputs, expected, arena.part(expected.sample))
        found = read_results(ComparisonBatch([_comparison(arena, self.right)]).ask_now())[0]
        errors = self.right.errors(bench.workload, found, name=inputs.name, is_ordinary=True)
        return _with_broken(errors, arena, self.right)


class _KnownAnswers:
    """Right answers for the input sets that a bench has: on the device for all of them; else on the host for
    one, which chance picks.
    """

    def __init__(self, bench: Bench) -> None:
        self._workload, self._arenas = bench.workload, bench.arenas
        self.fill = bench.graph_of(lambda: _fill_outputs(bench))
        self.flush = allocate(present_gpu().l2_bytes)
        size = 3 * len(bench.arenas) * sum(spec.size_bytes for spec in outputs_of(bench.workload, "rows"))
        is_known = has_device_reference(bench.workload) and size < _MOST_ANSWERS and has_room(size)
        known = bench.arenas if is_known else []
        self._rights = [compute_right(bench.workload, _addresses(arena)) for arena in known]
        self._batch = ComparisonBatch([_comparison(*each) for each in zip(known, self._rights, strict=True)])
        self._picked = int(np.random.default_rng().integers(len(bench.arenas)))
        self._expected: ExpectedOutputs | None = None  # of the picked one, by the host

    def errors(self, arenas: Collection[int]) -> Iterator[Errors]:
        """Of what lies in those arenas, as far as their answers are known. Limits are those of honest
        arithmetic on the same inputs: the worst of hundreds of sets may be worse than that of one.
        """
        if self._rights:
            found = read_results(self._batch.ask_now())
            for at in arenas:
                right, arena = self._rights[at], self._arenas[at]
                errors = right.errors(self._workload, found[at], name=_KNOWN, is_ordinary=False)
                yield _with_broken(errors, arena, right)
        elif self._picked in arenas:
            yield self._by_the_host(self._arenas[self._picked])

    def _by_the_host(self, arena: Arena) -> Errors:
        inputs = arena.inputs.inputs if isinstance(arena.inputs, Original) else arena.inputs
        assert inputs is not None, "a bench has loaded its arenas"
        if self._expected is None:
            operation = operation_of(self._workload)
            where = operation.sample(self._workload, np.random.default_rng())
            self._expected = operation.expect(self._workload, inputs, where=where)
        part = arena.part(self._expected.sample)
        errors = validator.measure(self._workload, inputs, self._expected, part)
        return replace(errors, inputs=_KNOWN, is_ordinary=False)


@lru_cache(maxsize=4)
def _answers_of(bench: Bench) -> _KnownAnswers:
    """Computed for the first contender that is judged on the bench."""
    return _KnownAnswers(bench)


@lru_cache(maxsize=4)
def _unseen_right(workload: Workload, seed: int) -> RightRows | None:
    """None where the device does not compute it, or does not keep the inputs."""
    unseen = cache.inputs(workload, operation_of(workload).inputs.after_timing, seed)
    if not isinstance(unseen, Original) or not has_device_reference(workload):
        return None
    addresses = {name: int(image.data.ptr) for name, image in unseen.images.items()}
    _, expected = large_case(workload, operation_of(workload).inputs.after_timing, seed)
    return compute_right(workload, addresses, expected)


def _addresses(arena: Arena) -> dict[str, int]:
    """Of an arena's inputs, where no kernel writes if they are kept there too."""
    if isinstance(arena.inputs, Original):
        return {name: int(image.data.ptr) for name, image in arena.inputs.images.items()}
    return {name: buffer.pointer for name, buffer in arena.buffers.items()}


def _comparison(arena: Arena, right: RightRows) -> RowComparison:
    (rows,) = outputs_of(arena.workload, "rows")
    side = Side(arena.buffers[rows.name].pointer)
    return right.comparison(arena.workload, side, lambda name: arena.buffers[name].pointer)


def _with_broken(errors: Errors, arena: Arena, right: RightRows) -> Errors:
    """Rows whose answers are not known are searched for what is not finite."""
    if not right.is_whole(arena.workload) and not errors.broken:
        for spec in arena.rows:
            if holds_non_finite(arena.buffers[spec.name].device_bytes, dtype=spec.dtype):
                return replace(errors, broken="somewhere")
    return errors


def _fill_outputs(bench: Bench) -> None:
    for arena in bench.arenas:
        arena.fill_outputs(_FINITE, bench.stream)


# ---- outputs ----


def _outputs(
    contender: KernelContender, bench: Bench, answers: _KnownAnswers, unseen: _Unseen, *, is_called: bool
) -> Verdict:
    """The verdict on what every graph leaves behind, of a replay after two others."""
    verdict: Verdict | None = None
    for replay, arenas in _timed_runs(contender, bench, is_called=is_called):
        for _ in range(1 if verdict else 2):
            _run(replay, bench)
        answers.fill()
        _run(replay, bench)
        errors = [unseen.errors(bench)] if unseen.at in arenas else []
        errors += answers.errors(arenas - {unseen.at})
        found = judge_errors(bench.workload, errors) if errors else None
        verdict = found if verdict is None or (found and not found.passed) else verdict
        if found and not found.passed:
            break
    check_memory_of(bench.arenas)
    _check_workspace(contender.kernel)
    assert verdict is not None, "the walk comes to the unseen inputs"
    return verdict


def _timed_runs(
    contender: KernelContender, bench: Bench, *, is_called: bool
) -> Iterator[tuple[Callable[[], None], set[int]]]:
    """What may have been timed, and the input sets that it comes to: first the walk, to all of them."""
    everywhere = set(range(len(bench.arenas)))
    yield contender.graph(bench, bench.walk), everywhere
    for order in contender.orders(bench):
        if order != tuple(bench.walk):
            yield contender.graph(bench, order), set(order)
    if is_called:
        call = contender.calls(bench)

        def call_each() -> None:
            for at in everywhere:
                call(at)

        yield call_each, everywhere


def _check_workspace(kernel: LoadedKernel) -> None:
    if kernel.workspace_bytes:
        buffer, zeroed = workspace(*kernel.scratch), kernel.zeroed_bytes
        check_workspaces([buffer], is_dirty=bool(zeroed and buffer.device_bytes[:zeroed].get().any()))


# ---- pace ----

_SLOWER, _LATENCY_US = 1.1, 0.3  # a launch that is judged beside one that is timed again
_OTHERWISE, _OTHERWISE_US = 1.5, 1.0  # that one beside what it took before: at another clock, say
_PAIRS, _MORE_PAIRS = 3, 2
_PAUSES_S = (0.0, 0.05, 0.2, 0.5, 1.0, 2.0)
_SURE = 3  # rounds one after the other in which each judged launch is slower than all others


@dataclass(frozen=True, slots=True)
class _PacePair:
    """Two replays of the same work, one of which finds nothing of what an earlier launch left."""

    what: str
    usual: Callable[[], None]
    judged: Callable[[], None]
    launches: int
    before: Callable[[], None] = lambda: None  # a judged replay; not timed
    memory: Any = None  # of the graphs, kept alive


def _pace(
    contender: KernelContender, bench: Bench, answers: _KnownAnswers, timed_us: float
) -> tuple[str, str]:
    """Why a launch that is judged is slower than one that was timed, and why that cannot be said."""
    walk = contender.graph(bench, bench.walk)
    pairs = [_PacePair("a launch that is judged", walk, walk, len(bench.walk), before=answers.fill)]
    spoiler = _Spoiler(contender.kernel, bench)
    if contender.kernel.workspace_bytes > contender.kernel.zeroed_bytes:
        pairs.append(
            _spoilt_pair("a launch that finds no old workspace", contender, bench, spoiler, bench.walk)
        )
    if repeated := [order for order in contender.orders(bench) if len(order) > 1 and len(set(order)) == 1]:
        spoiler = replace(spoiler, has_outputs=True)
        order = max(repeated, key=len)
        pairs.append(_spoilt_pair("a launch that finds no old output", contender, bench, spoiler, order))
    for pair in pairs:
        slower, busy = _compare_pace(pair, bench, answers, timed_us if pair is pairs[0] else None)
        if slower or busy:
            return slower, busy
    return "", ""


@dataclass(frozen=True, slots=True)
class _Spoiler:
    """Overwrites what a launch has left, before the next one; or as much of other memory."""

    kernel: LoadedKernel
    bench: Bench
    has_outputs: bool = False

    def parts(self, at: int) -> list[tuple[Any, int]]:
        """Memory, and with what it is filled, before a launch on that input set."""
        found, arena = [], self.bench.arenas[at]
        if self.kernel.workspace_bytes > self.kernel.zeroed_bytes:
            memory = workspace(*self.kernel.scratch).device_bytes
            found.append((memory[self.kernel.zeroed_bytes :], POISON))
        if self.has_outputs:
            found += [(arena.buffers[spec.name].device_bytes, _FINITE) for spec in arena.outputs]
        return found

    def enqueue(self, at: int, instead: Any = None) -> None:
        """In stream order; `instead` is other memory."""
        for memory, byte in self.parts(at):
            (memory if instead is None else instead).data.memset_async(byte, memory.nbytes, self.bench.stream)


def _spoilt_pair(
    what: str, contender: KernelContender, bench: Bench, spoiler: _Spoiler, order: Collection[int]
) -> _PacePair:
    other = allocate(max(memory.nbytes for memory, _ in spoiler.parts(0)))
    order = list(order)
    usual = contender.graph_after(bench, order, lambda at: spoiler.enqueue(at, other))
    judged = contender.graph_after(bench, order, spoiler.enqueue)
    return _PacePair(what, usual, judged, len(order), memory=other)


def _compare_pace(
    pair: _PacePair, bench: Bench, answers: _KnownAnswers, timed_us: float | None
) -> tuple[str, str]:
    """As _pace(), of one pair."""
    for replay in 2 * [pair.usual, *([] if pair.judged is pair.usual else [pair.judged])]:
        _run(replay, bench)

    def take() -> tuple[float, float]:
        if pair.memory is not None:  # the judged replay before has overwritten what a usual one leaves
            pair.usual()
        usual_us = _launch_us(pair.usual, pair, bench, answers)
        pair.before()
        return usual_us, _launch_us(pair.judged, pair, bench, answers)

    return pace_complaint(pair.what, take, timed_us=timed_us)


def pace_complaint(
    what: str,
    take: Callable[[], tuple[float, float]],
    *,
    timed_us: float | None,
    pauses_s: Sequence[float] = _PAUSES_S,
) -> tuple[str, str]:
    """Why a judged launch is slower than a usual one, else why that cannot be said; `take` times one of each,
    in us. Medians of several; asked again, ever later, while they are unclear.
    """
    sure, said = 0, ""
    for pause_s in pauses_s:
        time.sleep(pause_s)
        usual: list[float] = []
        judged: list[float] = []
        for count in (_PAIRS, _MORE_PAIRS):
            for usual_us, judged_us in (take() for _ in range(count)):
                usual.append(usual_us)
                judged.append(judged_us)
            usual_us, judged_us = median(usual), median(judged)
            is_as_before = timed_us is None or usual_us <= _OTHERWISE * timed_us + _OTHERWISE_US
            if is_as_before and judged_us <= _SLOWER * usual_us + _LATENCY_US:
                return "", ""
        sure = sure + 1 if min(judged) > _SLOWER * max(usual) + _LATENCY_US else 0
        said = f"{what} takes {judged_us:.1f} us instead of {usual_us:.1f} us"
        if sure == _SURE:
            return f"{said}: it works less where it finds what it left", ""
        if not is_as_before:
            said = (
                f"{what} takes {judged_us:.1f} us, timed again {usual_us:.1f} us and before {timed_us:.1f} us"
            )
    return "", f"the GPU was too busy to be sure of a time: {said}; see nvidia-smi for what else runs"


def _launch_us(replay: Callable[[], None], pair: _PacePair, bench: Bench, answers: _KnownAnswers) -> float:
    """Microseconds a launch. Before, other memory is written, as much as the L2 holds: of what was filled it
    then keeps nothing, and the host is ahead of the GPU.
    """
    for byte in (0, 1):
        answers.flush.data.memset_async(byte, answers.flush.nbytes, bench.stream)
    stopwatch = Stopwatch(bench.stream)
    replay()
    return stopwatch.stop(limit_s=LARGE_LIMIT_S) / pair.launches
