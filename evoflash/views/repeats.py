"""Shows searches that were repeated with several seeds, alone or two beside one another. Compares nothing."""

import math
from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape

from evoflash.app.catalogue import problem_name
from evoflash.app.repeats import RepeatedSearch, SearchComparison, checkpoints
from evoflash.views.tables import Column, print_table
from evoflash.views.terminal import four_digits

_ESTIMATES = "~: estimated by a model, not measured."


def print_repeats(found: RepeatedSearch, console: Console) -> None:
    """A row for each seed, then the quartiles of the best times as the runs went on."""
    key, mark = found.run.key, "~" * found.is_estimate
    _say(console, f"{problem_name(key.problem)} on {key.gpu}, {key.basis}: {found.name}")
    rows = found.repeats
    columns = [
        Column("seed", tuple(str(each.seed) for each in rows)),
        Column("run", tuple(str(each.run) for each in rows)),
        Column("evaluated", tuple(str(each.evaluations) for each in rows)),
        Column("best us", tuple(us_text(each.best_us[-1], mark) for each in rows)),
    ]
    print_table(columns, console)
    console.print()
    _print_bands(console, found.evaluations, {"": found}, mark)
    if found.is_estimate:
        _say(console, _ESTIMATES)


def print_comparison(found: SearchComparison, console: Console) -> None:
    """Both searches, their quartiles side by side, the pairs and the answer."""
    key, is_estimate = found.first.run.key, found.first.is_estimate or found.second.is_estimate
    mark = "~" * is_estimate
    _say(console, f"{problem_name(key.problem)} on {key.gpu}, {key.basis}")
    _say(console, f"A  {found.first.name}")
    _say(console, f"B  {found.second.name}")
    console.print()
    _print_bands(console, found.evaluations, {"A": found.first, "B": found.second}, mark)
    console.print()
    for line in answer(found):
        _say(console, line)
    if is_estimate:
        _say(console, _ESTIMATES)


def answer(found: SearchComparison) -> Iterator[str]:
    """What the pairs say, in sentences."""
    both = found.first, found.second
    if found.ratio is None:
        yield "No seed has a correct kernel in both: nothing can be said of which is better."
        return
    mark = "~" * any(each.is_estimate for each in both)
    evaluations = "1 evaluation" if found.evaluations == 1 else f"{found.evaluations} evaluations"
    pairs = "1 pair" if len(found.pairs) == 1 else f"{len(found.pairs)} pairs of equal seeds"
    yield (
        f"After {evaluations} A's best takes {mark}{found.ratio:.3f} of B's time, the "
        f"geometric mean of {pairs}."
    )
    if found.p_value is None:
        yield "One pair says nothing of other seeds: repeat both with `evoflash search --repeats 5`."
        return
    p = "below 0.001" if found.p_value < 0.001 else f"{found.p_value:.3f}"
    yield f"By chance alone a ratio so far from 1 has the probability {p} (signs of the pairs exchanged)."
    if found.least_p > 0.05:
        yield f"{len(found.pairs)} pairs cannot show less than {found.least_p:.3f}: more seeds can."


def _print_bands(console: Console, evaluations: int, shown: "dict[str, RepeatedSearch]", mark: str) -> None:
    points = checkpoints(evaluations)
    columns = [Column("after", tuple(map(str, points)))]
    for letter, found in shown.items():
        bands = [found.quartiles(at) for at in points]
        before = f"{letter} " if letter else ""
        columns.append(Column(f"{before}median us", tuple(us_text(middle, mark) for _, middle, _ in bands)))
        if len(found.repeats) > 1:
            spans = (f"{us_text(low, mark)} to {us_text(high, mark)}" for low, _, high in bands)
            columns.append(Column(f"{before}quartiles", tuple(spans), 1))
    print_table(columns, console)


def us_text(us: float, mark: str) -> str:
    """A time with its mark; `none` where there is none yet."""
    return f"{mark}{four_digits(us)}" if math.isfinite(us) else "none"


def _say(console: Console, line: str) -> None:
    console.print(escape(line), highlight=False, soft_wrap=not console.is_terminal)
