"""The `replay` evaluator: outcomes looked up in a recorded space. Compiles, runs and measures nothing."""

from collections import deque
from typing import Self

import numpy as np

from evoflash.evaluation import Basis, Evaluation, Proposal, Rung, Status, Timing
from evoflash.replay.recorded_space import Outcome, Recording
from evoflash.space import Genome

PROTOCOL = "recorded"
_UNKNOWN = Outcome(Status.CONSTRAINTS, Rung.CHECKS, "not in the recorded space")


class ReplayedEvaluator:
    """Looks outcomes up; each costs one evaluation, failures included. A context manager, like the others."""

    basis = Basis.REPLAYED

    def __init__(self, recording: Recording, *, ahead: int = 1) -> None:
        """`ahead` proposals are kept in flight, as by evaluators that take time."""
        self.ahead = ahead
        self._recording = recording
        self._queue: deque[Proposal] = deque()

    def __enter__(self) -> Self:
        """Nothing to start."""
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to end."""

    @property
    def pending(self) -> int:
        """Proposals submitted and not yet collected."""
        return len(self._queue)

    def submit(self, proposal: Proposal) -> None:
        """Queue a proposal."""
        self._queue.append(proposal)

    def collect(self) -> tuple[Proposal, Evaluation]:
        """The oldest pending proposal's recorded outcome."""
        proposal = self._queue.popleft()
        return proposal, self._evaluation(proposal.genome)

    def cancel(self) -> None:
        """Drop everything pending."""
        self._queue.clear()

    def _evaluation(self, genome: Genome) -> Evaluation:
        outcome = self._recording.space.outcomes.get(genome, _UNKNOWN)
        problem = self._recording.problem
        return Evaluation(
            genome,
            problem,
            self._recording.device,
            self.basis,
            outcome.status,
            outcome.rung,
            outcome.reason,
            timings=() if outcome.score_us is None else (_timing(problem, outcome, outcome.score_us),),
            score_us=outcome.score_us,
            model_version=self._recording.model_version,
        )


def _timing(problem: str, outcome: Outcome, score_us: float) -> Timing:
    times_us = outcome.times_us or (score_us,)
    p10, median, p90 = (float(np.quantile(times_us, q)) for q in (0.1, 0.5, 0.9))
    return Timing(problem, PROTOCOL, median, p10, p90, len(times_us), censored=outcome.is_lower_bound)
