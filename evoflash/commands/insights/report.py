"""What a run's mutation operators brought, as tables or JSON; counts nothing."""

import json
import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evoflash.commands.insights.digest import Insights, Record, Step
from evoflash.commands.insights.words import sentences
from evoflash.evaluation import Basis

OFTEN = 3  # uses from which the tables show an operator against a bottleneck; JSON has all


def as_json(insights: Insights) -> str:
    """One object; gains are natural logarithms of the speed-up over the parent. An interval's end that nobody
    knows is null.
    """
    table = asdict(insights)
    for effect in table["effects"]:
        if math.isinf(effect["high"]):
            effect["low"] = effect["high"] = None
    return json.dumps(table, indent=2)


def print_insights(insights: Insights, console: Console) -> None:
    """A table each for operators, bottlenecks, both together and arms; the winner's lineage; sentences."""
    key, mark = insights.run.key, "~" if insights.is_estimated else ""
    of = " from a recording of a model's ESTIMATES" if mark and key.basis is Basis.REPLAYED else ""
    console.print(escape(f"{key.problem} on {key.gpu}: {key.strategy} seed {key.seed}, {key.basis}{of}"))
    if not insights.operators:
        console.print(escape(f"{insights.evaluated} evaluated, none by a mutation operator."))
    else:
        console.print(_table("operators", insights.operators, mark))
        console.print(_table("what held the parent back", insights.bottlenecks, mark))
        often = [pair for pair in insights.pairs if pair.uses >= OFTEN]
        console.print(_table(f"both, used {OFTEN} times or more", often, mark))
        console.print(_table("operator chosen by its credit, or at random as a control", insights.arms, mark))
    for step in insights.lineage:
        console.print(escape(_step(step, mark)), highlight=False)
    for sentence in sentences(insights):
        console.print(escape(sentence), highlight=False, soft_wrap=True)


def _table(title: str, records: Iterable[Record], mark: str) -> Table:
    table = Table(title=escape(title), title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("", no_wrap=True)
    for name in ("uses", "correct", "faster", "mean gain", "best us", "kernel"):
        table.add_column(name, justify="right", no_wrap=True)
    for record in records:
        counts = (str(number) for number in (record.uses, record.correct, record.faster))
        figures = (_percent(record.mean_gain), _us(record.best_us, mark), record.best_id)
        table.add_row(escape(record.name), *counts, *figures)
    return table


def _percent(log_gain: float | None) -> str:
    return "" if log_gain is None else f"{math.expm1(log_gain):+.1%}"


def _us(score_us: float | None, mark: str) -> str:
    return "" if score_us is None else f"{mark}{score_us:.4g}"


def _step(step: Step, mark: str) -> str:
    changes = ", ".join(f"{name} {_word(old)} -> {_word(new)}" for name, (old, new) in step.changes.items())
    return f"  {step.genome_id}  {_us(step.score_us, mark):>9} us  {step.operator:22} {changes}"


def _word(value: Any) -> str:
    return "none" if value is None else str(value)
