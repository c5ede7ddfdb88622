"""Shows strategies on recorded spaces as tables: a comparison, a benchmark of many seeds. Times nothing."""

from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape

from evoflash.app.recordings import Benchmark
from evoflash.replay.benchmark import BenchmarkRow, Space
from evoflash.replay.comparison import StrategyComparison, StrategyScore
from evoflash.views import tables

HEADERS = ("mean P", "95 %", "median", "below 0", "in 5 %", "CPU ms", "p")
# What a narrow terminal goes without first has the highest number; 0 is always shown.
_RANKS = dict(zip(("strategy", *HEADERS), (0, 0, 2, 3, 5, 1, 6, 4), strict=True))


def print_benchmark(found: Benchmark, console: Console) -> None:
    """A table for each space, best mean first, then the means over all spaces."""
    for space in found.spaces:
        console.print(escape(space.title), highlight=False)
        _print_space(space, found.how.reference, console)
        console.print()
    if len(found.spaces) > 1:
        words = ", ".join(f"{name} {mean:+.2f}" for name, mean in found.overall)
        console.print(escape(f"Mean of mean P over {len(found.spaces)} spaces: {words}."), highlight=False)
    console.print(escape(legend(found)), highlight=False)


def _print_space(space: Space, reference: str, console: Console) -> None:
    rows = zip(*map(cells, space.rows), strict=True)
    columns = [
        tables.Column(name, column, rank, is_number=name != "strategy")
        for (name, rank), column in zip(_RANKS.items(), rows, strict=True)
    ]
    styles = ["bold" if row.name == reference else "" for row in space.rows]
    tables.print_table(columns, console, styles=styles)


def cells(row: BenchmarkRow) -> tuple[str, ...]:
    """A row's words, in the order of HEADERS."""
    return (
        row.name,
        f"{row.standing.score:+.2f}",
        f"{row.standing.score_low:+.2f} to {row.standing.score_high:+.2f}",
        f"{row.median:+.2f}",
        f"{100 * row.below_random:.0f} %",
        f"{100 * row.standing.near_share:.0f} %",
        f"{row.cpu_ms:.1f}",
        test_words(row),
    )


def test_words(row: BenchmarkRow) -> str:
    """The paired test's p; empty for the reference, which is compared with nothing."""
    if row.p_value is None:
        return ""
    return "<0.001" if row.p_value < 0.001 else f"{row.p_value:.3f}"


def legend(found: Benchmark) -> str:
    """What the columns mean."""
    how, budget = found.how, found.budget
    return (
        f"{how.seeds} seeds of {budget} evaluations each. P: 0 random search, 1 the optimum, mean over "
        f"evaluations {found.window_start} to {budget}; 95 %: the interval of the mean; below 0: share of "
        "seeds worse than random; in 5 %: share that came within 5 % of the optimum; CPU ms: for each "
        f"evaluation; p: paired test of mean P against {how.reference}, seed by seed."
        f"{_extension_words(how.machine)}"
    )


_COMPARISON_RANKS = {
    "strategy": 0,
    "best / optimum": 1,
    "score": 0,
    "95 %": 2,
    "within 5 %": 3,
    "evaluations to 5 %": 4,
}


def print_comparison(comparison: StrategyComparison, console: Console) -> None:
    """The strategies, best score first, and random search's expectation in its place among them."""
    standings = sorted((*comparison.standings, comparison.random), key=lambda s: -s.score)
    rows = [_comparison_cells(standing, standing is not comparison.random) for standing in standings]
    columns = [
        tables.Column(name, cells, rank, is_number=name != "strategy")
        for (name, rank), cells in zip(_COMPARISON_RANKS.items(), zip(*rows, strict=True), strict=True)
    ]
    styles = ["dim" if standing is comparison.random else "" for standing in standings]
    console.print(escape(comparison.title), highlight=False, soft_wrap=not console.is_terminal)
    tables.print_table(columns, console, styles=styles)
    console.print(escape(_comparison_legend(comparison)), highlight=False, soft_wrap=not console.is_terminal)


def curves_as_csv(comparison: StrategyComparison) -> str:
    """A line for each strategy and evaluation: the quartiles of the best over the optimum."""
    lines = ["strategy,evaluation,lower_quartile,median,upper_quartile"]
    for name, rows in comparison.curves.items():
        word = f'"{name}"' if "," in name else name
        lines += [
            f"{word},{at},{low:.5g},{middle:.5g},{high:.5g}" for at, (low, middle, high) in enumerate(rows, 1)
        ]
    return "\n".join([*lines, ""])


def _comparison_cells(standing: StrategyScore, is_run: bool) -> tuple[str, ...]:
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


def _comparison_legend(comparison: StrategyComparison) -> str:
    start = comparison.window_start
    return (
        f"{comparison.repeats} repeats of {comparison.budget} evaluations. Score: 0 random search, 1 the "
        f"optimum, mean over evaluations {start} to {comparison.budget}. Best and evaluations are medians; "
        f"within 5 %: share of the repeats.{_extension_words(comparison.made_with)}"
    )


def _extension_words(made_with: Mapping[str, str]) -> str:
    """What of one's own took part; empty where nothing did."""
    own = made_with.get("extensions")
    return f" With extensions: {own}." if own else ""
