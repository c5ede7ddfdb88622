"""Shows what came of searching several problems, as a table, JSON or a line for each. Searches nothing."""

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from evoflash.app.search.many import ProblemResult
from evoflash.app.search.session import RunResult
from evoflash.app.words import in_a_line, time_in_words
from evoflash.errors import EvoflashError
from evoflash.evaluation import Basis
from evoflash.settings import is_on
from evoflash.views import kernel as kernel_report
from evoflash.views.tables import Column, print_table

_PROBLEM_LETTERS = 24  # that a line of a problem has at least
_ESTIMATES = "~: estimated by a model, not measured."


def as_json(outcomes: Sequence[ProblemResult], price_per_hour: float | None = None) -> str:
    """One object, {"searches": [...]}: the problem, its weight, the error or null, and the result as a
    single search has it or null.
    """
    return json.dumps({"searches": [_as_dict(each, price_per_hour) for each in outcomes]}, indent=2)


def _as_dict(outcome: ProblemResult, price_per_hour: float | None) -> dict[str, Any]:
    result = outcome.result
    found = None
    if result is not None and result.best is not None:
        found = json.loads(kernel_report.describe_result(result, as_json=True, price_per_hour=price_per_hour))
    return {
        "problem": str(outcome.problem.problem),
        "named": outcome.problem.text,
        "weight": outcome.problem.weight,
        "error": outcome.error or None,
        "library": None if result is None or result.library is None else _library(*result.library),
        "result": found,
    }


def _library(name: str, us: float) -> dict[str, Any]:
    return {"name": name, "score_us": us}


def print_summary(outcomes: Sequence[ProblemResult], console: Console) -> None:
    """A row for each problem, in the order of the file; then the errors, and what the mark means."""
    names = ("problem", "best us", "over", "evaluated", "kernel", "family")
    ranks = dict(zip(names, (0, 0, 0, 0, 1, 2), strict=True))
    cells = zip(*map(_cells, outcomes), strict=True)
    columns = [
        Column(
            name,
            column,
            ranks[name],
            is_number=name in ("best us", "evaluated"),
            wraps_at=_PROBLEM_LETTERS if name == "problem" else 0,
        )
        for name, column in zip(names, cells, strict=True)
        if any(column)
    ]
    print_table(columns, console)
    for each in outcomes:
        if each.error:
            console.print(f"{each.problem.text}: {each.error}", markup=False, highlight=False, soft_wrap=True)
    if any(_is_estimate(each) for each in outcomes):
        console.print(_ESTIMATES)


def _cells(outcome: ProblemResult) -> tuple[str, ...]:
    result = outcome.result
    spent = "" if result is None else str(result.spent)
    if result is None or result.best is None or result.best.score_us is None:
        return outcome.problem.text, "failed", "", spent, "", ""
    us, mark = result.best.score_us, "~" if _is_estimate(outcome) else ""
    over = "" if result.library is None else f"{result.library[1] / us:.2f}x {result.library[0]}"
    genome = result.best.genome
    return outcome.problem.text, f"{mark}{us:.2f}", over, spent, genome.id, genome.family


def _is_estimate(outcome: ProblemResult) -> bool:
    best = outcome.result.best if outcome.result else None
    return best is not None and best.basis is Basis.ESTIMATED


def in_lines(outcomes: Sequence[ProblemResult]) -> str:
    """A line for each problem, for --quiet."""
    return "\n".join(f"{each.problem.text}  {_in_a_line(each)}" for each in outcomes)


def _in_a_line(outcome: ProblemResult) -> str:
    if outcome.error or outcome.result is None or outcome.result.best is None:
        return f"failed: {outcome.error}"
    return in_a_line(outcome.result.best)


def check_results(outcomes: Sequence[ProblemResult]) -> None:
    """EvoflashError where a problem failed; its exit code is theirs where all failed alike, else 1."""
    failed = [each for each in outcomes if each.error]
    if not failed:
        return
    error = EvoflashError(
        f"{len(failed)} of {len(outcomes)} problems failed: the same command tries them again, and continues "
        "the others."
    )
    codes = {each.exit_code for each in outcomes}
    error.exit_code = codes.pop() if len(codes) == 1 else 1
    raise error


def describe(result: RunResult, *, as_json: bool, price_per_hour: float | None = None) -> str:
    """The best configuration, as text or JSON; its problem need not be one of ours."""
    if as_json or is_on("quiet"):
        return kernel_report.describe_end(result, as_json=as_json, price_per_hour=price_per_hour)
    best = result.best
    assert best is not None, "a search without a kernel is an error, not a report"
    lines = (
        f"config    {best.genome.id}  {best.genome.family}",
        f"values    {' '.join(f'{name}={value}' for name, value in best.genome.values)}",
        f"problem   {best.problem}   on {best.gpu}",
        f"time      {time_in_words(best)}; best of {result.spent} evaluations",
    )
    return "\n".join(lines)
