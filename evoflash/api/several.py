"""Several problems searched from Python, one after the other. searching.py does each."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, Unpack

from evoflash.api.records import Progress, SearchResult
from evoflash.api.searching import search
from evoflash.commands.portfolio.mix import Weighted, read_problems
from evoflash.commands.search.many import by_weight
from evoflash.errors import EvoflashError
from evoflash.problem import Problem, parse_problem


class SearchOptions(TypedDict, total=False):
    """What `search` takes beside the problem; every limit is meant for each problem."""

    gpu: str | None
    budget: int | None
    minutes: float | None
    until: float | None
    strategy: str
    family: str | None
    seed: int
    evaluator: str | None
    archive: bool
    transfer: bool
    objective: str | None
    fresh: bool
    gpus: str | None
    workers: int | None
    scheduler: str | None
    tls: str | Path | None
    ahead: int | None
    db: str | None
    progress: Progress | None


@dataclass(frozen=True)
class ProblemSearch:
    """What came of one of several problems: a result, or the error that it ended in."""

    problem: Problem
    weight: float
    result: SearchResult | None
    error: str = ""

    def __str__(self) -> str:
        """In a line: the problem, and its best time or its error."""
        best = self.result.best if self.result else None
        return f"{self.problem}: {best.time if best else self.error or 'no correct kernel'}"


def search_each(
    problems: str | Path | Sequence[str | Problem], **options: Unpack[SearchOptions]
) -> tuple[ProblemSearch, ...]:
    """Search for each problem of a file, or of a list, as `search` does, the heaviest first.

    A file has a problem in each line, and if wanted `weight=2.5` behind it (`evoflash portfolio` has other
    forms). Each problem is a run of its own, with its own budget or minutes; the same call continues all of
    them. A problem that fails is a ProblemSearch with its error. An interruption ends with what there is.
    UsageError for a file that cannot be read and for a problem that makes no sense.

    >>> import evoflash
    >>> mix = ["b=1,h=1,s=64,d=64", "b=1,h=1,s=96,d=64"]
    >>> found = evoflash.search_each(mix, gpu="l4", family="flash_wmma", budget=1)
    >>> [each.result.spent for each in found]
    [1, 1]
    """
    found: dict[Weighted, ProblemSearch] = {}
    given = _weighted(problems)
    for each in by_weight(given):
        found[each] = _searched(each, options)
        result = found[each].result
        if result is not None and result.is_interrupted:
            break
    return tuple(found[each] for each in given if each in found)


def _weighted(problems: str | Path | Sequence[str | Problem]) -> tuple[Weighted, ...]:
    if isinstance(problems, str | Path):
        return read_problems(Path(problems))
    parsed = dict.fromkeys(each if isinstance(each, Problem) else parse_problem(each) for each in problems)
    return tuple(Weighted(problem, str(problem), 1.0) for problem in parsed)


def _searched(each: Weighted, options: SearchOptions) -> ProblemSearch:
    try:
        return ProblemSearch(each.problem, each.weight, search(each.problem, **options))
    except EvoflashError as error:
        return ProblemSearch(each.problem, each.weight, None, str(error))
