"""Shows a comparison of search strategies as JSON or a table. Computes nothing."""

import json
from dataclasses import asdict

from rich.console import Console
from rich.markup import escape

from evoflash.replay.comparison import WINDOW_START, StrategyComparison, StrategyScore
from evoflash.views import tables

# What a narrow terminal goes without first has the highest number; 0 is always shown.
_RANKS = {
    "strategy": 0,
    "best / optimum": 1,
    "score": 0,
    "95 %": 2,
    "within 5 %": 3,
    "evaluations to 5 %": 4,
}


def as_json(comparison: StrategyComparison) -> str:
    """One object; times in us, `best_over_optimum` a median, `near` within 5 % of the optimum."""
    return json.dumps(asdict(comparison), indent=2)


def print_table(comparison: StrategyComparison, console: Console) -> None:
    """The strategies, best score first, and random search's expectation in its place among them."""
    standings = sorted((*comparison.standings, comparison.random), key=lambda s: -s.score)
    rows = [_cells(standing, standing is not comparison.random) for standing in standings]
    columns = [
        tables.Column(name, cells, rank, is_number=name != "strategy")
        for (name, rank), cells in zip(_RANKS.items(), zip(*rows, strict=True), strict=True)
    ]
    styles = ["dim" if standing is comparison.random else "" for standing in standings]
    console.print(escape(comparison.title), highlight=False, soft_wrap=not console.is_terminal)
    tables.print_table(columns, console, styles=styles)
    console.print(escape(_legend(comparison)), highlight=False, soft_wrap=not console.is_terminal)


def _cells(standing: StrategyScore, is_run: bool) -> tuple[str, ...]:
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


def _legend(comparison: StrategyComparison) -> str:
    start = min(WINDOW_START, comparison.budget)
    return (
        f"{comparison.repeats} repeats of {comparison.budget} evaluations. Score: 0 random search, 1 the "
        f"optimum, mean over evaluations {start} to {comparison.budget}. Best and evaluations are medians; "
        "within 5 %: share of the repeats."
    )
