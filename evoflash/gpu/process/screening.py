"""Ends a candidate early where it is too slow to be worth every check. Proves nothing.

Smoke test, one checked launch on each timed workload, a short timing in turns with a proven kernel. What
could still be among the best leaves here unproven, with status CORRECT, for the whole ladder (rungs.py). All
else ends as SCREENED. Nothing is let off because of a screen: whatever wins has passed every rung.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from evoflash.evaluation import Rung, Status, Timing, score
from evoflash.gpu.process import checks as verdicts
from evoflash.gpu.process.outcome import GpuOutcome, climb_rungs, stop_if_wrong, with_verdict
from evoflash.gpu.process.rungs import (
    GpuTask,
    beside,
    check_physics,
    contenders_of,
    environment,
    smoke,
    subject_of,
)
from evoflash.gpu.timing.protocols import SCREEN_EFFORT, SCREENED
from evoflash.gpu.timing.relative import anchor_note, relative_time

_APART = 0.01  # times of one kernel taken at other moments differ by half of it
_HOPELESS, _HOST_US = 3.0, 1000.0  # a single eager launch: what the host takes for it is in its time
_FAR_BEHIND = 2.0  # a single replay
_ALLOWANCE, _LEAST_S = 20.0, 1.0  # a launch may take as many times what the slowest of interest takes


def screen(task: GpuTask) -> GpuOutcome:
    """SCREENED with its short time as score, CORRECT when the task is worth every check, or a failure.

    Without an anchor or a rival there is nothing to be slower than: CORRECT at once, and nothing is run.
    """
    outcome = GpuOutcome(task.genome_id, Status.CORRECT, Rung.SMOKE)
    return climb_rungs(task, outcome, _screen) if task.anchor and task.rival_us else outcome


def _screen(task: GpuTask, outcome: GpuOutcome) -> Iterator[GpuOutcome]:
    outcome = replace(outcome, environment=environment())
    yield outcome
    smoke(task)
    outcome = replace(outcome, rung=Rung.CORRECTNESS)
    yield outcome
    outcome, took_us = _look_at(task, outcome)
    outcome = replace(outcome, rung=Rung.TIMING)
    yield outcome
    rival_us = task.rival_us
    assert rival_us is not None, "screen() has asked"
    assert task.anchor is not None, "screen() has asked"
    if score(took_us) > _HOPELESS * rival_us + _HOST_US:
        yield _too_slow(outcome, _single(task, took_us), score(took_us), rival_us)
        return
    slow_us = (1 + _APART) * rival_us
    found = relative_time(
        beside(task.anchor, contenders_of(task)),
        effort=SCREEN_EFFORT,
        is_clear=lambda found: found.low > slow_us or found.high < rival_us,
        is_far=lambda us: us > _FAR_BEHIND * rival_us,
        rng=np.random.default_rng(),
    )
    noted = anchor_note(task.anchor.task.genome_id, found)
    outcome = replace(outcome, environment={**outcome.environment, **noted})
    check_physics(found.timings, task)
    if found.score_us.low > slow_us or found.score_us.ratio > _FAR_BEHIND * rival_us:
        yield _too_slow(outcome, found.timings, found.score_us.ratio, rival_us)
    else:
        yield replace(outcome, timings=found.timings, score_us=found.score_us.ratio)


def _look_at(task: GpuTask, outcome: GpuOutcome) -> tuple[GpuOutcome, list[float]]:
    """One checked launch on each timed workload, and their times in us."""
    limit_s, took_us = allowance_s(task), []
    for workload, parts in task.timed:
        subject = replace(subject_of(task, workload, parts), limit_s=limit_s)
        verdict, one_us = verdicts.first_look(subject)
        outcome = with_verdict(outcome, verdict)
        if not verdict.passed:  # all checks at size also find out whether evoflash's own copies are whole
            stop_if_wrong(with_verdict(outcome, verdicts.at_size(subject)))
            stop_if_wrong(outcome)
        took_us.append(one_us)
    return outcome, took_us


def allowance_s(task: GpuTask) -> float:
    """How long one launch on a timed workload may take, in seconds."""
    return max(_LEAST_S, _ALLOWANCE * 1e-6 * (task.rival_us or 0.0))


def _single(task: GpuTask, took_us: list[float]) -> tuple[Timing, ...]:
    """Single launches as timings."""
    return tuple(
        Timing(str(workload), SCREENED.name, us, None, None, n=1)
        for (workload, _), us in zip(task.timed, took_us, strict=True)
    )


def _too_slow(
    outcome: GpuOutcome, timings: tuple[Timing, ...], score_us: float, rival_us: float
) -> GpuOutcome:
    reason = f"too slow to be proven: {score_us:.2f} us against {rival_us:.2f} us"
    return replace(outcome, status=Status.SCREENED, reason=reason, timings=timings, score_us=score_us)
