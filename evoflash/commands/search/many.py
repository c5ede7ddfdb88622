"""Several problems, each a run of its own with its own budget, one after the other; what came of each.

A problem that fails costs only itself. Prints and ranks nothing. Several at a time: side_by_side.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from evoflash.commands.portfolio.mix import Weighted
from evoflash.commands.search.run import SearchResult
from evoflash.errors import EvoflashError, NoKernelError


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one problem: a result with a kernel, or why there is none."""

    problem: Weighted
    result: SearchResult | None
    error: str = ""
    exit_code: int = 0


Search = Callable[[str], SearchResult]
Heard = Callable[[Weighted, Outcome | None], object]  # None: it begins


def in_turn(problems: Sequence[Weighted], search: Search, heard: Heard) -> list[Outcome]:
    """One after the other, the heaviest first; outcomes in the order of `problems`."""
    found: dict[Weighted, Outcome] = {}
    for problem in by_weight(problems):
        heard(problem, None)
        found[problem] = outcome_of(problem, partial(search, problem.text))
        heard(problem, found[problem])
    return [found[problem] for problem in problems]


def by_weight(problems: Sequence[Weighted]) -> list[Weighted]:
    """The heaviest first, equal ones in their order."""
    return sorted(problems, key=lambda each: -each.weight)


def outcome_of(problem: Weighted, search: Callable[[], SearchResult]) -> Outcome:
    """What the search comes to; what it raises at people is an error of this problem alone."""
    try:
        result = search()
    except EvoflashError as error:
        return Outcome(problem, None, str(error), error.exit_code)
    if result.best is None:
        said = f"no correct kernel among {result.spent} evaluations: raise --budget."
        return Outcome(problem, result, said, NoKernelError.exit_code)
    return Outcome(problem, result)
