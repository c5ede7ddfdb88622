"""Shows a benchmark of strategies as JSON, or as tables as wide as the terminal. Times nothing.

The JSON names the command that made it. Nothing is computed but means over spaces.
"""

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date

from rich.console import Console
from rich.markup import escape

from evoflash import __version__
from evoflash.gpu.timing.noise_floor import environment
from evoflash.replay.benchmark import BenchmarkRow, Space
from evoflash.replay.comparison import WINDOW_START
from evoflash.views import tables


@dataclass(frozen=True, slots=True)
class Provenance:
    """How a benchmark was made."""

    command: str
    date: str
    version: str
    seeds: int
    first_seed: int
    reference: str
    machine: dict[str, str]


def provenance(argv: Sequence[str], *, seeds: int, first_seed: int, reference: str) -> Provenance:
    """How the benchmark of this process was made."""
    command = f"evoflash {shlex.join(argv)}"
    today = date.today().isoformat()
    return Provenance(command, today, __version__, seeds, first_seed, reference, environment())


def as_json(spaces: Sequence[Space], how: Provenance) -> str:
    """One object; P of each seed in `scores`, quartiles of best over optimum after each evaluation."""
    tables = [asdict(space) for space in spaces]
    for table in tables:
        table["expected"] = [round(value, 5) for value in table["expected"]]
        for row in table["rows"]:
            row["scores"] = [round(score, 4) for score in row["scores"]]
            row["quartiles"] = [[round(value, 5) for value in each] for each in row["quartiles"]]
    return json.dumps({**asdict(how), "spaces": tables})


def overall(spaces: Sequence[Space]) -> list[tuple[str, float]]:
    """The mean over the spaces of each contender's mean P, best first; of those that ran on all of them."""
    found: dict[str, list[float]] = {}
    for space in spaces:
        for row in space.rows:
            found.setdefault(row.name, []).append(row.standing.score)
    means = [(name, sum(p) / len(p)) for name, p in found.items() if len(p) == len(spaces)]
    return sorted(means, key=lambda each: -each[1])


HEADERS = ("mean P", "median", "below 0", "in 5 %", "CPU ms", "p")
# What a narrow terminal goes without first has the highest number; 0 is always shown.
_RANKS = dict(zip(("strategy", *HEADERS), (0, 0, 2, 4, 1, 5, 3), strict=True))


def print_tables(spaces: Sequence[Space], how: Provenance, console: Console) -> None:
    """A table for each space, best mean first, then the means over all spaces."""
    for space in spaces:
        console.print(escape(space.title), highlight=False)
        _print_space(space, how, console)
        console.print()
    if len(spaces) > 1:
        words = ", ".join(f"{name} {mean:+.2f}" for name, mean in overall(spaces))
        console.print(escape(f"Mean of mean P over {len(spaces)} spaces: {words}."), highlight=False)
    console.print(escape(legend(spaces, how)), highlight=False)


def _print_space(space: Space, how: Provenance, console: Console) -> None:
    rows = zip(*map(cells, space.rows), strict=True)
    columns = [
        tables.Column(name, column, rank, is_number=name != "strategy")
        for (name, rank), column in zip(_RANKS.items(), rows, strict=True)
    ]
    styles = ["bold" if row.name == how.reference else "" for row in space.rows]
    tables.print_table(columns, console, styles=styles)


def cells(row: BenchmarkRow) -> tuple[str, ...]:
    """A row's words, in the order of HEADERS."""
    return (
        row.name,
        f"{row.standing.score:+.2f}",
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
    return "<.001" if row.p_value < 0.001 else f"{row.p_value:.3f}".removeprefix("0")


def legend(spaces: Sequence[Space], how: Provenance) -> str:
    """What the columns mean."""
    budget = max(space.budget for space in spaces)
    return (
        f"{how.seeds} seeds of {budget} evaluations each. P: 0 random search, 1 the optimum, mean over "
        f"evaluations {min(WINDOW_START, budget)} to {budget}; below 0: share of seeds worse than random; "
        "in 5 %: share that came within 5 % of the optimum; CPU ms: for each evaluation; p: paired test of "
        f"mean P against {how.reference}, seed by seed."
    )
