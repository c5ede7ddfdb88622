"""Has the runs of somebody else's kernel made in a sandbox, some once more, and judges here what they answer.

The inputs go in, the outputs come out as bytes, of which nothing is believed but their length; the right
answers never leave this process. Loads nothing of the kernel.
"""

import os
import pickle
import shutil
import signal
import struct
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from json import JSONDecodeError, loads
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.app.check import confined_worker
from evoflash.app.check.cases import Case, OutputArray, OwnCase, WorkloadCase
from evoflash.app.check.confined_worker import HEAD, ConfinedRequest, outputs_of
from evoflash.app.check.findings import KINDS
from evoflash.app.check.one_run import (
    CaseRun,
    OneRun,
    Places,
    ToRun,
    crowding,
    lines_to_watch,
    places_told,
    with_callers,
)
from evoflash.emulator.call import EmulatorRun, kernel_before
from evoflash.emulator.launch import Emulation, EmulatorReport, Site
from evoflash.errors import SandboxError, UsageError
from evoflash.evaluation import Status
from evoflash.isolation import Ending
from evoflash.kernels import gxx
from evoflash.kernels.ef_layer import made_headers
from evoflash.numerics import ARRAY_TYPES
from evoflash.operation import operation_of
from evoflash.paths import TEMPLATES, cache_dir
from evoflash.sandbox.boundary import Boundary, found_boundary
from evoflash.sandbox.process import ConfinedProcess
from evoflash.validation.cases import draw_case
from evoflash.workload import ExpectedOutputs, Output, TestInput, Workload

Call = tuple[Sequence[Emulation], Output]
JudgedCalls = Callable[[WorkloadCase, Sequence[tuple[TestInput, ExpectedOutputs]], Sequence[Call]], CaseRun]

_FRAME = struct.Struct("<qQ")  # a run's exit code, and how many bytes it answers
_MOST_ANSWER = 1 << 30
_MOST_WORDS = 2000  # characters of a report
MOST_FAILED = 6  # runs: what a kernel does wrong it does in most of them
_START_S = 60.0  # for Python and NumPy on a slow disk


class _NoAnswerError(Exception):
    """What came is no answer of a run; the message says why."""


@dataclass(frozen=True, slots=True)
class ConfinedRuns:
    """How runs are made: inside of what, until when (of time.monotonic()), and who judges outputs.

    `library_of` has the library of a text.
    """

    boundary: Boundary
    deadline_s: float
    judged_calls: JudgedCalls
    memory_bytes: int
    library_of: Callable[[str], Path]

    @contextmanager
    def workers(self, processes: int) -> "Iterator[ConfinedWorkers]":
        """So many processes in the sandbox, which are gone when the block ends."""
        pool = ConfinedWorkers(self, [_Worker(self) for _ in range(processes)])
        try:
            yield pool
        finally:
            for worker in pool.workers:
                worker.close()


@dataclass(slots=True)
class ConfinedWorkers:
    """Processes in the sandbox."""

    runs: ConfinedRuns
    workers: "list[_Worker]"
    failed: int = 0  # runs

    def run_all(self, to_run: Sequence[ToRun], *, is_brief: bool = False) -> list[OneRun]:
        """The runs that were made, in order: none begins after one that does not end, too late, or, where it
        is to be brief, after as many that failed as say what is wrong.
        """
        waiting = deque(enumerate(to_run))
        ran: dict[int, OneRun] = {}
        errors: list[BaseException] = []

        def serve(which: int) -> None:
            try:
                self._serve(which, waiting, ran, is_brief=is_brief)
            except BaseException as error:
                errors.append(error)
                waiting.clear()

        threads = [
            threading.Thread(target=serve, args=(which,), name="evoflash-runs")
            for which in range(len(self.workers))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return [ran[at] for at in sorted(ran)]

    def _serve(
        self, which: int, waiting: "deque[tuple[int, ToRun]]", ran: dict[int, OneRun], *, is_brief: bool
    ) -> None:
        while True:
            try:
                at, to_run = waiting.popleft()
            except IndexError:
                return
            if not self.workers[which].is_alive:
                self.workers[which].close()
                self.workers[which] = _Worker(self.runs)
            ran[at] = OneRun(to_run, self.workers[which].make(to_run))
            self.failed += not ran[at].is_right
            if ran[at].is_endless or (is_brief and self.failed >= MOST_FAILED):
                waiting.clear()


class _Worker:
    """A process in the sandbox, and the folder that is its own."""

    def __init__(self, runs: ConfinedRuns) -> None:
        self._runs, self.is_alive = runs, True
        self._folder = tempfile.TemporaryDirectory(prefix="evoflash-")
        self._own = Path(self._folder.name)
        scratch, self._shown = self._own / "tmp", self._own / "kernel"
        scratch.mkdir()
        self._shown.mkdir()
        os.chmod(scratch, 0o777)  # whoever it is inside
        os.chmod(self._own, 0o755)
        runtime = gxx.runtime()
        self._process = ConfinedProcess(
            runs.boundary,
            [sys.executable, "-s", "-m", confined_worker.__name__, str(cache_dir())],
            # An operation reads its struct in the templates' folder.
            read=(self._shown, runtime.parent, made_headers(), TEMPLATES),
            write=scratch,
            memory_bytes=runs.memory_bytes,
        )
        self._begun_s = time.monotonic()

    def make(self, to_run: ToRun) -> Ending[CaseRun]:
        """One run; a process that dies in it is not used again."""
        case, run = to_run.case, to_run.run
        limit_s = len(run.seeds) * len(case.launches) * run.cpu_limit_s
        drawn = list[tuple[TestInput, ExpectedOutputs]]()
        if isinstance(case, WorkloadCase):
            made = {seed: draw_case(case.workload, to_run.inputs, seed) for seed in set(run.seeds)}
            drawn = [made[seed] for seed in run.seeds]
        inputs = tuple(inputs for inputs, _ in drawn)
        library = self._shown_library(self._runs.library_of(to_run.text))
        if any(launch.dependent for launch in case.launches):
            run = replace(run, kernel_before=self._shown_library(kernel_before()))
        request = pickle.dumps(ConfinedRequest(library, case, run, inputs, limit_s))
        now = time.monotonic()
        deadline_s = min(now + limit_s * crowding() + _START_S, max(self._runs.deadline_s, now))
        self._process.send(len(request).to_bytes(8, "little") + request)
        head = self._process.receive(_FRAME.size, deadline_s)
        if head is None:
            return self._ending_of_loss(deadline_s)
        code, size = _FRAME.unpack(head)
        answer = self._process.receive(size, deadline_s) if size <= _MOST_ANSWER else None
        if answer is None:
            return self._ending_of_loss(deadline_s)
        if code != 0:
            return _death(code)
        try:
            return Ending(self._read(answer, case, run, drawn))
        except _NoAnswerError as error:
            return Ending(None, Status.RUNTIME, f"what the kernel's process answers is no run: {error}")

    def _shown_library(self, made: Path) -> Path:
        """Where the process finds a library."""
        shown = self._shown / made.parent.name / made.name
        if not shown.exists():
            shown.parent.mkdir()
            shutil.copyfile(made, shown)
        return shown

    def _ending_of_loss(self, deadline_s: float) -> Ending[CaseRun]:
        self.is_alive = False
        if self._process.broken_limit:
            return Ending(None, Status.RUNTIME, f"it took more than {self._process.broken_limit}")
        if time.monotonic() >= deadline_s:
            is_over = deadline_s >= self._runs.deadline_s
            late = "the time for all runs was over" if is_over else "no answer in time"
            return Ending(None, Status.TIMEOUT, f"{late}; its process was killed")
        code, said = self._process.last_words()
        if code == 1:  # Python's, of an exception: what a kernel does happens in other processes
            raise SandboxError(f"the sandbox's own process failed, which is no kernel's fault: {said[:300]}")
        return Ending(
            None, Status.RUNTIME, f"the process in the sandbox ended with code {code}: {said[:200]}"
        )

    def _read(
        self,
        answer: bytes,
        case: Case,
        run: EmulatorRun,
        drawn: Sequence[tuple[TestInput, ExpectedOutputs]],
    ) -> CaseRun:
        head, body = _parts(answer)
        if isinstance(error := head.get("error"), str):
            raise UsageError(error[:500])
        try:
            calls = [[_emulation(each) for each in call] for call in head["calls"]]
            if isinstance(case, OwnCase):
                return _own_run(case, calls[0], head["outputs"], body)
            if not 0 < len(calls) <= len(drawn):
                raise _NoAnswerError(f"it has {len(calls)} calls")
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise _NoAnswerError(f"{type(error).__name__} in its head") from None
        outputs = _outputs(case, run, body, len(calls))
        return self._runs.judged_calls(case, drawn[: len(calls)], list(zip(calls, outputs, strict=True)))

    def close(self) -> None:
        self._process.close()
        self._folder.cleanup()


def _death(code: int) -> Ending[CaseRun]:
    if -code in (signal.SIGXCPU, signal.SIGKILL):
        return Ending(None, Status.TIMEOUT, f"its process died of signal {-code}: it used its CPU time up")
    said = f"died of signal {-code}" if code < 0 else f"ended with exit code {code}"
    return Ending(None, Status.RUNTIME, f"the process {said}")


def _parts(answer: bytes) -> tuple[dict[str, Any], memoryview]:
    if len(answer) < HEAD.size:
        raise _NoAnswerError("it is too short")
    head_size, body_size = HEAD.unpack_from(answer)
    if len(answer) != HEAD.size + head_size + body_size:
        raise _NoAnswerError("its parts do not have the lengths that it says")
    try:
        head = loads(answer[HEAD.size : HEAD.size + head_size])
    except (JSONDecodeError, UnicodeDecodeError, RecursionError):
        raise _NoAnswerError("its head is no JSON") from None
    if not isinstance(head, dict):
        raise _NoAnswerError("its head is no table")
    return head, memoryview(answer)[HEAD.size + head_size :]


def _emulation(told: dict[str, Any]) -> Emulation:
    """What the emulator said, in the types that it says it in."""
    return Emulation(
        reports=tuple(map(_report, told["reports"])),
        counters={str(name): int(count) for name, count in told["counters"].items()},
        sites=tuple(
            Site(int(each["line"]), str(each["op"]), *(int(each[n]) for n in ("requests", "actual", "ideal")))
            for each in told["sites"]
        ),
        seconds=float(told["seconds"]),
    )


def _report(told: dict[str, Any]) -> EmulatorReport:
    kind = str(told["kind"])
    return EmulatorReport(
        kind if kind in KINDS else "crash",
        line=int(told["line"]),
        line2=int(told["line2"]),
        count=int(told["count"]),
        message=str(told["message"])[:_MOST_WORDS],
        callers=tuple(int(line) for line in told["callers"]),
        callers2=tuple(int(line) for line in told["callers2"]),
    )


def _outputs(case: WorkloadCase, run: EmulatorRun, body: memoryview, calls: int) -> list[Output]:
    specs = {spec.name: spec for spec in operation_of(case.workload).tensors(case.workload)}
    outputs, at = list[Output](), 0
    for _ in range(calls):
        arrays = {}
        for name in outputs_of(case, run):
            arrays[name], at = _array(body, at, specs[name].shape, ARRAY_TYPES[specs[name].dtype])
        outputs.append(Output(arrays))
    if at != len(body):
        raise _NoAnswerError("its arrays do not have the sizes of the outputs")
    return outputs


def _array(body: memoryview, at: int, shape: tuple[int, ...], kind: Any) -> tuple[Any, int]:
    dtype = np.dtype(kind)
    end = at + int(np.prod(shape)) * dtype.itemsize
    if end > len(body):
        raise _NoAnswerError("its arrays do not have the sizes of the outputs")
    return np.frombuffer(body[at:end], dtype).reshape(shape).copy(), end


def _array_type(dtype: str) -> str:
    """NumPy's name of a type as the comment in a kernel's file says it; bfloat16 is stored as patterns."""
    return "u2" if dtype == "bf16" else f"{dtype[0]}{int(dtype[1:]) // 8}"


def _own_run(case: OwnCase, emulations: Sequence[Emulation], told: Any, body: memoryview) -> CaseRun:
    wanted = [each for each in case.arguments if each.is_output and each.shape is not None]
    written, at = list[OutputArray](), 0
    for argument, said in zip(wanted, told, strict=True):
        assert argument.shape is not None, "it is an array"
        values, at = _array(body, at, argument.shape, _array_type(argument.dtype))
        poisoned, is_changed = int(said["poisoned"]), said["is_changed"] is True
        written.append(OutputArray(argument.name, argument.dtype, values, poisoned, is_changed))
    (emulation,) = emulations
    return CaseRun(
        reports=emulation.reports,
        sites=emulation.sites,
        seconds=emulation.seconds,
        counters=emulation.counters,
        written=tuple(written),
    )


_MOST_PROCESSES = 4
_RUNS_OF_A_PROCESS = 8  # starting one costs as much as these many ordinary runs
_MEMORY_BYTES = 4 << 30
_MOST_S = 3600.0  # of a check, which a person can end


@dataclass(frozen=True, slots=True)
class Confinement:
    """Where somebody else's kernel is compiled and run: inside of what, how long, and in how much memory."""

    boundary: Boundary
    seconds: float
    memory_bytes: int = _MEMORY_BYTES
    is_brief: bool = False  # little beside the planned runs, none after some that failed, no callers


def confinement_for(*, is_foreign: bool, is_unsafe: bool = False) -> Confinement | None:
    """That of a check of a text that evoflash did not make; none of its own kernels. SandboxError."""
    return Confinement(found_boundary(is_unsafe=is_unsafe), _MOST_S) if is_foreign else None


def run_whole(confined: ConfinedRuns, to_run: Sequence[ToRun], *, text: str, name: str) -> list[OneRun]:
    """The runs that were made; those whose reports have a second place tell its callers, too."""
    processes = processes_for(to_run)
    with confined.workers(processes) as workers:
        ran = workers.run_all(to_run)
    watched, told_of = dict[int, tuple[int, ...]](), set[Places]()
    for at, one in enumerate(ran):
        if one.ending.value and (lines := lines_to_watch(one.ending.value, told_of)):
            watched[at] = lines
            told_of |= places_told(one.ending.value)
    if not watched:
        return ran

    def telling(small_text: str) -> Path:
        return gxx.build(
            small_text or text, name=name, tells_callers=True, sees_all=True, boundary=confined.boundary
        )

    asked = [replace(ran[at].made, run=replace(ran[at].run, watched=lines)) for at, lines in watched.items()]
    with replace(confined, library_of=telling).workers(min(processes, len(watched))) as workers:
        told = workers.run_all(asked)
    for at, second in zip(watched, told, strict=False):  # fewer where time ran out
        first = ran[at].ending
        if first.value and second.ending.value:
            ending = replace(first, value=with_callers(first.value, second.ending.value))
            ran[at] = replace(ran[at], ending=ending)
    return ran


# What runs are repeated for, in the counts of `_work` (some 4 million a second); what a run's process takes.
_MOST_REPEATED, _PROCESS_COST = 1_000_000, 100_000
_HEAVY = {"mma": 32, "wgmma_macs": 1, "wgmma": 0}  # counted once for a warp or a warpgroup


def run_briefly(
    confined: ConfinedRuns, to_run: Sequence[ToRun], again: Sequence[ToRun]
) -> tuple[list[OneRun], list[ToRun]]:
    """The runs that were made, and those that were meant to be: all of the first list, and of the second,
    which are on its workloads once more, those that cost little. What a run costs is counted, not timed, so
    that the same are made each time.
    """
    with confined.workers(processes_for(to_run)) as workers:
        ran = workers.run_all(to_run, is_brief=True)
        if len(ran) < len(to_run):
            return ran, [*to_run]
        costs: dict[Workload, int] = {}
        for one in ran:
            if isinstance(one.case, WorkloadCase):
                costs[one.case.workload] = max(costs.get(one.case.workload, 0), _work(one))
        left, cheap = _MOST_REPEATED, list[ToRun]()
        asked = [(costs[each.case.workload], each) for each in again if isinstance(each.case, WorkloadCase)]
        for cost, each in sorted(asked, key=lambda it: it[0]):
            left -= cost + _PROCESS_COST
            cheap += [each] if left >= 0 else ()
        ran += workers.run_all(cheap, is_brief=True)
    return ran, [*to_run, *cheap]


def _work(one: OneRun) -> int:
    counted = one.ending.value.counters if one.ending.value else {}
    return sum(
        count * _HEAVY.get(name, 1)
        for name, count in counted.items()
        if "_" not in name or name in ("plain_reads", "plain_writes", *_HEAVY)
    )


def processes_for(to_run: Sequence[ToRun]) -> int:
    """As many as pay for themselves."""
    return min(-(-len(to_run) // _RUNS_OF_A_PROCESS), os.cpu_count() or 1, _MOST_PROCESSES)
