"""How a task on the GPU ended, and failures on its way as such endings. Runs nothing."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from evoflash.cuda import launcher
from evoflash.cuda.arena import MemoryFaultError
from evoflash.cuda.launcher import KernelHungError, LaunchRefusedError
from evoflash.cuda.sharing import let_go
from evoflash.evaluation import Rung, Status, Timing, Verdict
from evoflash.gpu_process import rung_times

T = TypeVar("T")  # a task


@dataclass(frozen=True, slots=True)
class GpuOutcome:
    """How far a task came. `process_lost`: its context cannot be trusted any more."""

    genome_id: str
    status: Status
    rung: Rung
    reason: str = ""
    verdicts: tuple[Verdict, ...] = ()
    timings: tuple[Timing, ...] = ()
    score_us: float | None = None
    process_lost: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


class RejectedError(Exception):
    """The candidate stops here, and the message says why."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def guarded(
    task: T, outcome: GpuOutcome, climb: Callable[[T, GpuOutcome], Iterator[GpuOutcome]]
) -> GpuOutcome:
    """The last outcome of the rungs that `climb` takes; a failure on one of them is its outcome."""
    ended = _climbed(task, outcome, climb)
    if not ended.process_lost:  # else what runs, or hangs, does so until the process is killed
        let_go()
    return ended


def _climbed(
    task: T, outcome: GpuOutcome, climb: Callable[[T, GpuOutcome], Iterator[GpuOutcome]]
) -> GpuOutcome:
    # Each rung yields its outcome so far, which is kept when the next one fails.
    spent: defaultdict[Rung, float] = defaultdict(float)
    since = time.monotonic()
    try:
        for step in climb(task, outcome):
            now = time.monotonic()
            spent[outcome.rung] += now - since
            outcome, since = step, now
    except (RejectedError, LaunchRefusedError, MemoryFaultError, KernelHungError) as error:
        spent[outcome.rung] += time.monotonic() - since
        return _ended(_charged(outcome, spent), error)
    except launcher.cuda_errors() as error:
        spent[outcome.rung] += time.monotonic() - since
        return _ended(_charged(outcome, spent), error)
    return _charged(outcome, spent)


def _charged(outcome: GpuOutcome, spent: Mapping[Rung, float]) -> GpuOutcome:
    return replace(outcome, environment=rung_times.charged(outcome.environment, spent))


def _ended(outcome: GpuOutcome, error: Exception) -> GpuOutcome:
    reason = str(error).strip().splitlines()[0]
    match error:
        case RejectedError():
            return replace(outcome, status=error.status, reason=str(error))
        case LaunchRefusedError():
            return replace(outcome, status=Status.CONSTRAINTS, reason=str(error))
        case MemoryFaultError():
            # What else it overwrote is unknown: guards, inputs and code of this process are not trusted.
            return replace(outcome, status=Status.CORRECTNESS, reason=reason, process_lost=True)
        case KernelHungError():
            return replace(outcome, status=Status.TIMEOUT, reason=reason, process_lost=True)
        case _:
            return replace(outcome, status=Status.RUNTIME, reason=reason, process_lost=True)


def judged(outcome: GpuOutcome, verdict: Verdict) -> GpuOutcome:
    """The outcome with one more verdict."""
    return replace(outcome, verdicts=(*outcome.verdicts, verdict))


def stop_if_wrong(outcome: GpuOutcome) -> None:
    """Raises RejectedError for the last verdict's reason."""
    last = outcome.verdicts[-1]
    if not last.passed:
        raise RejectedError(Status.CORRECTNESS, f"{last.workload}: {last.reason}")
