"""Shows what came of a recorded space, or of several problems, as a table or lines. Searches nothing."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from evoflash.app.best import KnownForProblem
from evoflash.app.catalogue import problem_and_name
from evoflash.app.search.many import ProblemResult
from evoflash.app.search.session import RunResult
from evoflash.champions import Champion
from evoflash.evaluation import Basis, Build
from evoflash.settings import is_on
from evoflash.space import Genome
from evoflash.views import kernel
from evoflash.views.tables import Column, print_table
from evoflash.views.terminal import four_digits

_PROBLEM_LETTERS = 24  # that a line of a problem has at least
_ESTIMATES = "~: estimated by a model, not measured."


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


def print_known(found: Sequence[KnownForProblem], console: Console) -> None:
    """A row for each problem of a file with the kernel that is known for it, and how many have none."""
    rows = [known_cells(each) for each in found]
    names = ("problem", "us", "where from", "kernel", "family")
    columns = [
        Column(
            name,
            column,
            rank,
            is_number=name == "us",
            wraps_at=_PROBLEM_LETTERS if name == "problem" else 0,
        )
        for name, rank, column in zip(names, (0, 0, 1, 0, 2), zip(*rows, strict=True), strict=True)
    ]
    print_table(columns, console)
    known = sum(each.is_known for each in found)
    rest = "" if known == len(found) else " `evoflash search --problems FILE` searches for the others."
    console.print(f"{known} of {len(found)} have a kernel.{rest}", highlight=False, soft_wrap=True)
    if any(row[1].startswith("~") for row in rows):
        console.print(_ESTIMATES)


def known_cells(found: KnownForProblem) -> tuple[str, str, str, str, str]:
    """Problem, time, where that is from, id and family."""
    kernel, text = found.kernel, found.problem.text
    if kernel is None:
        return text, "", "none", "", ""
    genome = kernel.genome
    if isinstance(kernel, Champion):
        return (
            text,
            four_digits(kernel.us),
            f"archived, measured on {kernel.device}, {kernel.date}",
            genome.id,
            genome.family,
        )
    mark, us = "~" * kernel.is_estimate, kernel.score_us or 0.0
    where = "database, estimated" if kernel.is_estimate else "database, measured"
    return text, f"{mark}{four_digits(us)}", where, genome.id, genome.family


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
    return kernel.in_a_line(outcome.result.best)


def dry_run_line(genome: Genome, build: Build, reason: str) -> str:
    """What ptxas made of a genome, or why it does not compile."""
    said = reason or f"{build.registers} registers, {build.spill_bytes} bytes spilled"
    return f"{genome.id}  {said}  {genome}"


def dry_run_row(genome: Genome, build: Build, reason: str) -> dict[str, Any]:
    return {
        "genome_id": genome.id,
        "family": genome.family,
        "values": genome.as_dict(),
        "compiles": build.ok,
        "reason": reason,
        "registers": build.registers,
        "spill_bytes": build.spill_bytes,
    }


def describe_recorded(result: RunResult, price_per_hour: float | None = None) -> str:
    """The best configuration of a recorded space; its problem need not be one of ours."""
    if is_on("quiet"):
        return kernel.describe_end(result, price_per_hour)
    best = result.best
    assert best is not None, "a search without a kernel is an error, not a report"
    lines = (
        f"config    {best.genome.id}  {best.genome.family}",
        f"values    {' '.join(f'{name}={value}' for name, value in best.genome.values)}",
        f"problem   {problem_and_name(best.problem)}   on {best.gpu}",
        f"time      {best.time}; best of {result.spent} evaluations",
        *kernel.credit_lines(result),
    )
    return "\n".join(lines)
