"""A comparison of search strategies as a table or JSON; computes nothing."""

import json
from dataclasses import asdict

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evoflash.replay.comparison import WINDOW_START, Comparison, Standing


def as_json(comparison: Comparison) -> str:
    """One object; times in us, `best_over_optimum` a median, `near` within 5 % of the optimum."""
    return json.dumps(asdict(comparison), indent=2)


def print_table(comparison: Comparison, console: Console) -> None:
    """The strategies, best score first, and random search's expectation in its place among them."""
    grid = Table(box=box.SIMPLE_HEAD)
    headers = ("best / optimum", "score", "95 %", "within 5 %", "evaluations to 5 %")
    grid.add_column("strategy", no_wrap=True)
    for name in headers:
        grid.add_column(name, justify="right", no_wrap=True)
    for standing in sorted((*comparison.standings, comparison.random), key=lambda s: -s.score):
        is_run = standing is not comparison.random
        grid.add_row(*map(escape, _cells(standing, is_run)), style=None if is_run else "dim")
    console.print(escape(comparison.title), highlight=False, soft_wrap=True)
    console.print(grid)
    console.print(escape(_legend(comparison)), highlight=False, soft_wrap=True)


def _cells(standing: Standing, is_run: bool) -> tuple[str, ...]:
    after = "never" if standing.near_after is None else str(standing.near_after)
    interval = f"{standing.score_low:+.2f} to {standing.score_high:+.2f}" if is_run else "exact"
    near = f"{100 * standing.near_share:.0f} %"
    return (
        standing.strategy,
        f"{standing.best_over_optimum:.3f}",
        f"{standing.score:+.2f}",
        interval,
        near,
        after,
    )


def _legend(comparison: Comparison) -> str:
    start = min(WINDOW_START, comparison.budget)
    return (
        f"{comparison.repeats} repeats of {comparison.budget} evaluations. Score: 0 random search, 1 the "
        f"optimum, mean over evaluations {start} to {comparison.budget}. Best and evaluations are medians; "
        "within 5 %: share of the repeats."
    )
