"""When a search ends, by evaluations, time or nearness to the physical floor. Searches and times nothing."""

import math
from dataclasses import dataclass

from evoflash.errors import UsageError
from evoflash.evaluation import Evaluation, score
from evoflash.problem import Problem
from evoflash.specs import GpuSpec

DEFAULT_BUDGET = 200


@dataclass(frozen=True, slots=True)
class Limits:
    """What was asked for; the first that is reached ends the search. None: no such limit."""

    budget: int | None = DEFAULT_BUDGET  # evaluations of the run, those of earlier commands included
    seconds: float | None = None  # of this command's search
    until: float | None = None  # floor over time: 1 is a kernel at the physical floor

    @property
    def stored_budget(self) -> int:
        """What the run keeps: the most evaluations that any of its commands asked for, 0 for no number."""
        return self.budget or 0

    def is_spent(self, spent: int) -> bool:
        return self.budget is not None and spent >= self.budget

    def of_budget(self, spent: int) -> str:
        """`120 of 200`, or `120` where no number was asked for."""
        return str(spent) if self.budget is None else f"{spent} of {self.budget}"


def limits(
    budget: int | None, time_limit_s: float | None, minutes: float | None, until: float | None
) -> Limits:
    """Options -> checked limits. With `minutes` or `until` and no `budget`, the budget is unbounded."""
    if budget is not None and budget < 1:
        raise UsageError(f"budget {budget}: give a whole number from 1 up.")
    if minutes is not None and time_limit_s is not None:
        raise UsageError("--minutes and --time-limit say the same in minutes and in seconds: give one.")
    for name, number in (("--minutes", minutes), ("--time-limit", time_limit_s)):
        if number is not None and not 0 < number < math.inf:
            raise UsageError(f"{name} {number:g}: give a number above 0, or leave {name} away for no limit.")
    if until is not None and not 0 < until <= 1:
        raise UsageError(f"--until {until:g}: give a share of the physical floor above 0 and up to 1.")
    if budget is None and minutes is None and until is None:
        budget = DEFAULT_BUDGET
    return Limits(budget, time_limit_s if minutes is None else 60 * minutes, until)


def floor_us(problem: Problem, gpu: GpuSpec) -> float:
    """The physical floor of what candidates are ranked by: the geometric mean over the workloads, in us."""
    return score([gpu.floor_us(each.flops, each.bytes_moved) for each in problem.workloads])


def is_near(best: Evaluation | None, floor: float, until: float | None) -> bool:
    """Whether the best correct kernel has reached that share of the floor."""
    if until is None or best is None or best.score_us is None or best.is_censored:
        return False
    return best.is_correct and floor / best.score_us >= until
