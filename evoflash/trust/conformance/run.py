"""Says whether the emulator agrees with the GPU of this machine, for `evoflash doctor --conformance`.

Each module of kernels runs in a process of its own (worker.py). A kernel that crashes or hangs costs its own
case: the rest of its module goes on in a fresh process, until one primitive has done so CRASHES times, whose
other cases in the module are then left out. What was found is told by primitive, as lines for people and as
JSON. Judges no result itself.
"""

import contextlib
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future
from concurrent.futures import wait as wait_for
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from evoflash.errors import EvoflashError, UsageError
from evoflash.gpu.launcher import PresentGpu, cupy, present_gpu
from evoflash.gpu.timing.noise_floor import versions
from evoflash.isolation import Ending, IsolatedPool
from evoflash.kernels import gxx
from evoflash.trust.conformance.cases import CaseResult, Label, Primitive, primitives
from evoflash.trust.conformance.worker import modules, read_journal, run_module

MODULE_LIMIT_S = 120.0
CRASHES = 3  # of one primitive in one module
BY_CTRL_C = "by Ctrl-C"


@dataclass(frozen=True, slots=True)
class SweepResult:
    """What became of every case of the modules chosen, and why it ended early: "" if it did not."""

    outcomes: tuple[CaseResult, ...]
    stopped: str = ""


@dataclass(slots=True)
class _Progress:
    """One module's journal, read so far."""

    labels: tuple[Label, ...]
    journal: Path
    outcomes: list[CaseResult] = field(default_factory=list)
    open_labels: tuple[Label, ...] = ()  # of the trial under way when the journal ends
    next: int = 0
    finished: bool = False
    ending: str = ""  # of the last process, where it was none of its own choice
    begin_s: float = 0.0
    end_s: float = 0.0
    crashes: Counter[str] = field(default_factory=Counter)  # by primitive

    @property
    def abandoned_primitives(self) -> frozenset[str]:
        """Primitives whose other cases are left out."""
        return frozenset(name for name, count in self.crashes.items() if count >= CRASHES)

    def all(self) -> tuple[CaseResult, ...]:
        """One outcome for each case: what was never reached has failed."""
        reached = {outcome.label for outcome in self.outcomes}
        missing = [self._not_run_result(label) for label in self.labels if label not in reached]
        return (*self.outcomes, *missing)

    def _not_run_result(self, label: Label) -> CaseResult:
        reason = f"was not reached: {self.ending or 'the process ended'}"
        if label.primitive in self.abandoned_primitives:
            reason = f"not run: {CRASHES} kernels of {label.primitive} had crashed before it"
        return CaseResult(label, False, reason, end="not run")

    def read(self) -> None:
        self.outcomes, self.open_labels, self.crashes = [], (), Counter()
        for line in read_journal(self.journal):
            self.end_s = line.get("at", self.end_s)
            self.begin_s = self.begin_s or self.end_s
            if "begin" in line:
                self.open_labels, self.next = (
                    tuple(Label(**each) for each in line["labels"]),
                    line["begin"] + 1,
                )
            elif "outcomes" in line:
                found = [CaseResult(**{**raw, "label": Label(**raw["label"])}) for raw in line["outcomes"]]
                self.outcomes += found
                self.crashes.update({each.label.primitive for each in found if each.end == "crashed"})
                self.open_labels = ()
            self.finished = self.finished or "finished" in line

    def write_off(self, reason: str) -> None:
        """The trial under way has failed for that reason; it is written to the journal as well."""
        lost = [asdict(CaseResult(label, False, reason, end="crashed")) for label in self.open_labels]
        with self.journal.open("a", encoding="utf-8") as file:
            print(file=file)  # a line that a dying process left unfinished
            print(json.dumps({"outcomes": lost}), file=file)

    def line(self, name: str) -> str:
        ends = Counter("differ" if each.end == "compared" else each.end for each in self.all() if not each.ok)
        counts = "".join(f", {count} {end}" for end, count in sorted(ends.items()))
        return f"{name}: {len(self.labels)} cases{counts or ', all equal'}, {self.end_s - self.begin_s:.1f} s"


def conform(
    arch: str,
    *,
    on_gpu: bool,
    only: Collection[str] = (),
    most_workers: int = 16,
    time_limit_s: float = 240.0,
    said: Callable[[str], None] | None = None,
) -> SweepResult:
    """Every case of the table that a GPU such as "sm_90a" has; `only`: of modules whose names begin so.

    Without `on_gpu` the emulator is held against NumPy alone, which needs no GPU and no NVRTC. There are as
    many processes as cores, but at most `most_workers`. `said` is told of each module when it is done. After
    the time limit, or Ctrl-C, what is known so far is returned. UsageError where no module's name begins so.
    """
    end_s = time.monotonic() + time_limit_s
    chosen = {name: module for name, module in modules(arch).items() if not only or name.startswith((*only,))}
    if not chosen:
        raise UsageError(
            f"no text of kernels begins with {', '.join(only)}: choose from {', '.join(modules(arch))}."
        )
    workers = max(1, min(os.cpu_count() or 1, most_workers, len(chosen)))
    with tempfile.TemporaryDirectory() as folder:
        progress = {
            name: _Progress(module.labels, Path(folder) / f"{name}.jsonl") for name, module in chosen.items()
        }
        stopped = BY_CTRL_C
        with contextlib.suppress(KeyboardInterrupt):
            gxx.runtime()  # once, before many processes ask for it
            with IsolatedPool(workers) as pool:
                over = _Sweep(pool, arch, on_gpu, progress, said or (lambda _: None)).run(end_s)
                stopped = "" if over else f"after its time limit of {time_limit_s:g} s"
        return SweepResult(_gather_results(progress, stopped), stopped)


def _gather_results(progress: dict[str, _Progress], stopped: str) -> tuple[CaseResult, ...]:
    for mine in progress.values():
        if stopped and not mine.finished:
            mine.read()
            mine.ending = mine.ending or f"the run was stopped {stopped}"
    return tuple(outcome for mine in progress.values() for outcome in mine.all())


@dataclass(slots=True)
class _Sweep:
    """The modules under way."""

    pool: IsolatedPool
    arch: str
    on_gpu: bool
    progress: dict[str, _Progress]
    said: Callable[[str], None]

    def run(self, end_s: float) -> bool:
        """Whether all of it was done before that time."""
        waiting = {self._start(name): name for name in self.progress}
        while waiting and time.monotonic() < end_s:
            done, _ = wait_for(waiting, timeout=end_s - time.monotonic(), return_when=FIRST_COMPLETED)
            for future in done:
                name = waiting.pop(future)
                mine = self.progress[name]
                if _settle(mine, _ending(future)):
                    self.said(mine.line(name))
                else:
                    waiting[self._start(name)] = name
        return not waiting

    def _start(self, name: str) -> "Future[Ending[None]]":
        mine = self.progress[name]
        given_up = tuple(mine.abandoned_primitives)
        arguments = (name, self.arch, mine.journal, mine.next, self.on_gpu, given_up)
        return self.pool.submit(run_module, *arguments, timeout_s=MODULE_LIMIT_S)


def _ending(future: "Future[Ending[None]]") -> Ending[None]:
    try:
        return future.result()
    except EvoflashError as error:  # the pool could not keep a process running: others may go on
        return Ending(None, reason=str(error))


def _settle(mine: _Progress, ending: Ending[None]) -> bool:
    """Whether the module is done; if not, the trial that its process died of is written off."""
    before, mine.ending = mine.next, ending.reason
    mine.read()
    if mine.finished:
        return True
    if mine.open_labels:
        mine.write_off(ending.reason or "its process ended")
        mine.read()
    return mine.next == before  # no trial was begun: another try would end in the same way


@dataclass(frozen=True, slots=True)
class CaseFailure:
    """A case that is not equal, and how."""

    case: str
    detail: str


@dataclass(frozen=True, slots=True)
class PrimitiveSummary:
    """One entry of the table: how many cases it has, how many were equal, which were not."""

    primitive: str
    arch: str  # from which GPU on
    cases: int
    equal: int
    crashed: int  # or hung
    not_run: int  # the run was stopped, or too many of them had crashed
    skipped: str  # why none ran; "" where they ran
    compare: str  # "bits", "ulp" or "runs"
    bound_ulp: int
    worst_ulp: dict[str, float]  # by where, for approximations: "gpu", "emulator"
    failures: tuple[CaseFailure, ...]  # of those that ran

    @property
    def state(self) -> str:
        if self.skipped:
            return "skipped"
        if self.failures:
            return "differs"
        return "ok" if self.equal == self.cases else "not run"


@dataclass(frozen=True, slots=True)
class Conformance:
    """All of it, for one GPU."""

    gpu: str
    arch: str
    versions: str
    seconds: float
    primitives: tuple[PrimitiveSummary, ...]
    stopped: str = ""  # why before its end

    @property
    def cases(self) -> int:
        return sum(each.cases for each in self.primitives)

    @property
    def equal(self) -> int:
        return sum(each.equal for each in self.primitives)

    @property
    def is_interrupted(self) -> bool:
        return self.stopped == BY_CTRL_C

    def as_dict(self) -> dict[str, Any]:
        """Everything; of the cases, those that are not equal."""
        return {
            "cases": self.cases,
            "equal": self.equal,
            "crashed": sum(each.crashed for each in self.primitives),
            "not_run": sum(each.not_run for each in self.primitives),
            **asdict(self),
        }


def summaries(outcomes: Sequence[CaseResult], arch: str) -> tuple[PrimitiveSummary, ...]:
    """One for each entry of the table, in its order."""
    by_name: dict[str, list[CaseResult]] = {}
    for outcome in outcomes:
        by_name.setdefault(outcome.label.primitive, []).append(outcome)
    return tuple(_summary(entry, by_name.get(entry.name, []), arch) for entry in primitives())


def _summary(entry: Primitive, outcomes: list[CaseResult], arch: str) -> PrimitiveSummary:
    worst: dict[str, float] = {}
    for outcome in outcomes:
        for side, error in outcome.ulp.items():
            worst[side] = max(error, worst.get(side, 0.0))
    return PrimitiveSummary(
        primitive=entry.name,
        arch=entry.arch,
        cases=len(outcomes),
        equal=sum(outcome.ok for outcome in outcomes),
        crashed=sum(outcome.end == "crashed" for outcome in outcomes),
        not_run=sum(outcome.end == "not run" for outcome in outcomes),
        skipped=_skip_reason(entry, outcomes, arch),
        compare=entry.compare,
        bound_ulp=entry.ulp,
        worst_ulp=worst,
        failures=tuple(
            CaseFailure(each.label.case, each.detail)
            for each in outcomes
            if not each.ok and each.end != "not run"
        ),
    )


def _skip_reason(entry: Primitive, outcomes: list[CaseResult], arch: str) -> str:
    if not entry.runs_on(arch):
        return f"needs {entry.arch}"
    return "" if outcomes else "not chosen"


_WGMMA = 90  # compute capability; its cubins run on no other
_CONTEXT_BYTES = 1 << 30  # of GPU memory that a process is assumed to take
_MOST_CONTEXTS = 16
_COMPUTE_MODE, _DEFAULT_MODE = 20, 0  # of cudaDeviceAttr and cudaComputeMode; others admit one process


def check_primitives(
    *, only: Collection[str] = (), time_limit_s: float = 240.0, said: Callable[[str], None] | None = None
) -> Conformance:
    """Runs every case that this GPU has; see conform(). DeviceError without a GPU, or without g++."""
    gpu = present_gpu()
    arch, begin_s = arch_of(gpu), time.perf_counter()
    swept = conform(arch, on_gpu=True, only=only, most_workers=room(), time_limit_s=time_limit_s, said=said)
    seconds = round(time.perf_counter() - begin_s, 1)
    entries = summaries(swept.outcomes, arch)
    return Conformance(gpu.device_name, arch, versions(), seconds, entries, swept.stopped)


def arch_of(gpu: PresentGpu) -> str:
    """What to compile for: everything that the GPU has."""
    return f"sm_{gpu.compute_capability}" + ("a" if gpu.compute_capability == _WGMMA else "")


def room() -> int:
    """How many processes may use the GPU at once."""
    runtime = cupy().cuda.runtime
    device = runtime.getDevice()
    if runtime.deviceGetAttribute(_COMPUTE_MODE, device) != _DEFAULT_MODE:
        return 1
    total_bytes = runtime.getDeviceProperties(device)["totalGlobalMem"]
    return int(max(1, min(_MOST_CONTEXTS, total_bytes // _CONTEXT_BYTES // 2)))
