"""Shows what a run's mutation operators brought, as tables. Counts nothing."""

import math
from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console
from rich.markup import escape

from evoflash.app.catalogue import problem_name
from evoflash.app.insights import Generation, GroupStats, Insights, sentences
from evoflash.evaluation import Basis
from evoflash.views import tables
from evoflash.views.terminal import four_digits

OFTEN = 3  # uses from which the tables show an operator against a bottleneck; --json has all


def print_insights(insights: Insights, console: Console) -> None:
    """A table each for operators, bottlenecks, both together and arms; the winner's lineage; sentences."""
    key, mark = insights.run.key, "~" if insights.is_estimated else ""
    of = " from a recording of a model's ESTIMATES" if mark and key.basis is Basis.REPLAYED else ""
    what = problem_name(key.problem)
    head = f"run {insights.run.id}: {what} on {key.gpu}, {key.search_name} seed {key.seed}, {key.basis}{of}"
    wraps = console.is_terminal
    console.print(escape(head), highlight=False, soft_wrap=not wraps)
    if not insights.operators:
        console.print(f"{insights.evaluated} evaluated, none by a mutation operator.", highlight=False)
    else:
        often = [pair for pair in insights.pairs if pair.uses >= OFTEN]
        for title, records in (
            ("operators", insights.operators),
            ("what held the parent back", insights.bottlenecks),
            (f"operators by what held the parent back, used {OFTEN} times or more", often),
            ("operator chosen by its credit, or at random as a control", insights.arms),
        ):
            tables.print_table(_columns(records, mark), console, title=title)
            console.print()
    if insights.lineage:
        console.print("how the best kernel came about", highlight=False)
    for step in insights.lineage:
        console.print(escape(_step(step, mark)), highlight=False, soft_wrap=not wraps)
    for sentence in sentences(insights):
        console.print(escape(sentence), highlight=False, soft_wrap=not wraps)


def _columns(records: Iterable[GroupStats], mark: str) -> list[tables.Column]:
    rows = tuple(records)

    def column(name: str, cell: Callable[[GroupStats], str], rank: int) -> tables.Column:
        return tables.Column(name, tuple(map(cell, rows)), rank, is_number=bool(name))

    return [
        column("", lambda record: record.name, 0),
        column("uses", lambda record: str(record.uses), 1),
        column("correct", lambda record: str(record.correct), 4),
        column("faster", lambda record: str(record.faster), 3),
        column("mean gain", lambda record: _percent(record.mean_gain), 2),
        column("best us", lambda record: _us(record.best_us, mark), 0),
        column("kernel", lambda record: record.best_id, 5),
    ]


def _percent(log_gain: float | None) -> str:
    return "" if log_gain is None else f"{math.expm1(log_gain):+.1%}"


def _us(score_us: float | None, mark: str) -> str:
    return "" if score_us is None else f"{mark}{four_digits(score_us)}"


def _step(step: Generation, mark: str) -> str:
    changes = ", ".join(f"{name} {_word(old)} -> {_word(new)}" for name, (old, new) in step.changes.items())
    return f"  {step.genome_id}  {_us(step.score_us, mark):>9} us  {step.operator:22} {changes}".rstrip()


def _word(value: Any) -> str:
    return "none" if value is None else str(value)
