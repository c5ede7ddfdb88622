"""How a task on the GPU ended, with the seconds that each rung took. Runs and measures nothing.

A failure on the way is such an ending, not an exception. The seconds are kept in the candidate's environment.
"""

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from evoflash.evaluation import Evaluation, Rung, Status, Timing, Verdict
from evoflash.gpu import launcher
from evoflash.gpu.arena import MemoryFaultError
from evoflash.gpu.launcher import GpuBusyError, KernelHungError, LaunchRefusedError, let_go

_VALIDATOR = (Rung.SMOKE, Rung.CORRECTNESS)
_ALL = (*_VALIDATOR, Rung.TIMING)


def charge_rungs(environment: Mapping[str, str], seconds: Mapping[Rung, float]) -> dict[str, str]:
    """The environment with seconds added to the rungs': `smoke_s`, `correctness_s`, `timing_s`."""
    added = {
        f"{rung}_s": f"{_rung_seconds(environment, rung) + spent:.4f}" for rung, spent in seconds.items()
    }
    return {**environment, **added}


def _rung_seconds(environment: Mapping[str, str], rung: Rung) -> float:
    return float(environment.get(f"{rung}_s", 0))


def together(environment: Mapping[str, str], earlier: Mapping[str, str]) -> dict[str, str]:
    """The environment of a proof, with the seconds that the candidate's screen took before it."""
    known = {rung: _rung_seconds(earlier, rung) for rung in _ALL if f"{rung}_s" in earlier}
    return charge_rungs(environment, known)


def seconds_by_rung(evaluation: Evaluation) -> dict[str, float]:
    """Of the rungs that the candidate reached on the GPU; empty where nothing was measured."""
    rungs = (rung for rung in _ALL if f"{rung}_s" in evaluation.environment)
    return {str(rung): _rung_seconds(evaluation.environment, rung) for rung in rungs}


def validator_seconds(evaluation: Evaluation) -> float:
    """What the smoke test and correctness took."""
    return sum(_rung_seconds(evaluation.environment, rung) for rung in _VALIDATOR)


def describe(evaluations: Iterable[Evaluation]) -> str:
    """One line: the validator's share of the time of what was proven, and what was screened out; or empty."""
    all_of = [e for e in evaluations if f"{Rung.TIMING}_s" in e.environment]
    whole = [e for e in all_of if not e.is_screened]
    words = _proven(whole) if whole else ""
    if screened := [sum(seconds_by_rung(e).values()) for e in all_of if e.is_screened]:
        median_s = statistics.median(screened)
        words += (
            f"{'; ' if words else ''}{len(screened)} too slow for that were screened in {median_s:.2f} s each"
        )
    return words


def _proven(whole: Sequence[Evaluation]) -> str:
    validator = statistics.median(map(validator_seconds, whole))
    total = statistics.median(sum(seconds_by_rung(e).values()) for e in whole)
    share = statistics.median(validator_seconds(e) / sum(seconds_by_rung(e).values()) for e in whole)
    return (
        f"{validator:.2f} s of {total:.2f} s in the GPU process, {share:.0%} (medians of {len(whole)} "
        "candidates that were timed in full)"
    )


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


def climb_rungs(
    task: T, outcome: GpuOutcome, climb: Callable[[T, GpuOutcome], Iterator[GpuOutcome]]
) -> GpuOutcome:
    """The last outcome of the rungs that `climb` takes; a failure on one of them is its outcome."""
    ended = _climb(task, outcome, climb)
    if not ended.process_lost:  # else what runs, or hangs, does so until the process is killed
        let_go()
    return ended


def _climb(
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
    except (RejectedError, LaunchRefusedError, MemoryFaultError, KernelHungError, GpuBusyError) as error:
        spent[outcome.rung] += time.monotonic() - since
        return _with_failure(_charge(outcome, spent), error)
    except launcher.cuda_errors() as error:
        spent[outcome.rung] += time.monotonic() - since
        return _with_failure(_charge(outcome, spent), error)
    return _charge(outcome, spent)


def _charge(outcome: GpuOutcome, spent: Mapping[Rung, float]) -> GpuOutcome:
    return replace(outcome, environment=charge_rungs(outcome.environment, spent))


def _with_failure(outcome: GpuOutcome, error: Exception) -> GpuOutcome:
    reason = str(error).strip().splitlines()[0]
    match error:
        case RejectedError():
            return replace(outcome, status=error.status, reason=str(error))
        case LaunchRefusedError():
            return replace(outcome, status=Status.CONSTRAINTS, reason=str(error))
        case GpuBusyError():
            return replace(outcome, status=Status.UNMEASURED, reason=reason)
        case MemoryFaultError():
            # What else it overwrote is unknown: guards, inputs and code of this process are not trusted.
            return replace(outcome, status=Status.CORRECTNESS, reason=reason, process_lost=True)
        case KernelHungError():
            return replace(outcome, status=Status.TIMEOUT, reason=reason, process_lost=True)
        case _:
            return replace(outcome, status=Status.RUNTIME, reason=reason, process_lost=True)


def with_verdict(outcome: GpuOutcome, verdict: Verdict) -> GpuOutcome:
    return replace(outcome, verdicts=(*outcome.verdicts, verdict))


def stop_if_wrong(outcome: GpuOutcome) -> None:
    """Raises RejectedError for the last verdict's reason."""
    last = outcome.verdicts[-1]
    if not last.passed:
        raise RejectedError(Status.CORRECTNESS, f"{last.workload}: {last.reason}")


def with_outcome(evaluation: Evaluation, outcome: GpuOutcome) -> Evaluation:
    """What came of a genome on the GPU, beside what was found of it before."""
    return replace(
        evaluation,
        status=outcome.status,
        rung=outcome.rung,
        reason=outcome.reason,
        verdicts=(*evaluation.verdicts, *outcome.verdicts),
        timings=outcome.timings,
        score_us=outcome.score_us,
        environment={**evaluation.environment, **outcome.environment},
    )
