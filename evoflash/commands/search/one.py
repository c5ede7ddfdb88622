"""One search from options to its result, for a problem: planned, with its machines, run. Prints nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from evoflash.commands.progress import Progress
from evoflash.commands.search import plan as planning
from evoflash.commands.search import run as running
from evoflash.commands.search.limits import Limits
from evoflash.commands.search.machines import Asked, machines


@dataclass(frozen=True, slots=True)
class Wanted:
    """A search as it was asked for, but for its problem and where it works."""

    planned: Mapping[str, Any]  # arguments of plan.plan, without problem and evaluator
    db: str
    limits: Limits
    fresh: bool
    argv: Sequence[str]


def searched(
    wanted: Wanted, problem: str, asked: Asked, *, watch: running.Watch = Progress
) -> running.SearchResult:
    """What came of it; begins a run or continues it. Errors as those of plan.plan, machines and run.run."""
    planned = partial(planning.plan, problem=problem, evaluator=asked.evaluator, **wanted.planned)
    with machines(asked, lambda present: planned(present=present)) as (plan, where):
        return running.run(
            plan,
            wanted.db,
            limits=wanted.limits,
            fresh=wanted.fresh,
            argv=wanted.argv,
            watch=watch,
            machines=where,
        )
