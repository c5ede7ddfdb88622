"""Shows runs as a table, in lines and over several seeds, and whether their rows are whole. Changes nothing.

`evoflash watch` draws the lines again until the runs end.
"""

import math
import time
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.text import Text

from evoflash.app.catalogue import problem_name
from evoflash.app.repeats import RepeatedSearch, SearchComparison, checkpoints
from evoflash.app.runs import RunList, age_s, money, state
from evoflash.store.integrity import Defect, Health
from evoflash.store.standing import ComputeCost, RunStatus
from evoflash.views.tables import Column, print_table
from evoflash.views.terminal import four_digits, wrap

# What a narrow terminal goes without first has the highest number; 0 is always shown.
_RANKS = {
    **{"run": 0, "name": 4, "problem": 3, "gpu": 5, "basis": 7, "search": 2},
    **{"evaluated": 1, "best us": 0, "state": 0, "began": 8},
    **{"GPU min": 9, "CPU min": 10, "price": 1},
}
_WRAPPED = {"name": 12, "problem": 16, "search": 14}  # characters that a line of them has at least
_NUMBERS = ("run", "evaluated", "best us", "GPU min", "CPU min", "price")


def print_runs(found: RunList, console: Console) -> None:
    """A row for each run, or a line that says what to do."""
    if not found.runs:
        what = "search" if found.left_out else "run"
        console.print(f"No {what} is stored: run `evoflash search` first.")
        _say_left_out(found, console)
        return
    cells = zip(*(_cells(each, found.price_per_hour) for each in found.runs), strict=True)
    columns = [
        Column(name, column, rank, is_number=name in _NUMBERS, wraps_at=_WRAPPED.get(name, 0))
        for (name, rank), column in zip(_RANKS.items(), cells, strict=True)
        if any(column)
    ]
    print_table(columns, console)
    _say_left_out(found, console)


def _say_left_out(found: RunList, console: Console) -> None:
    if found.left_out:
        runs, are = ("run", "is") if found.left_out == 1 else ("runs", "are")
        console.print(f"{found.left_out} {runs} of single kernels {are} left out: --all shows all.")


def _cells(standing: RunStatus, price_per_hour: float | None) -> tuple[str, ...]:
    run, key = standing.run, standing.run.key
    of = f"/{run.budget}" if run.budget else ""
    search = f"{key.search_name} seed {key.seed}{', begun again' * (run.number > 1)}"
    began = run.created[:16].replace("T", " ")
    done = f"{standing.evaluated}{of}"
    what = (str(run.id), run.name, problem_name(key.problem), key.gpu, key.basis.value, search, done)
    return (*what, _best_time(standing), state(standing), began, *_took(standing, price_per_hour))


def _took(standing: RunStatus, price_per_hour: float | None) -> tuple[str, str, str]:
    """Minutes of GPU and CPU, and the price; empty cells where they are not known."""
    if standing.cost is None:
        return "", "", ""
    price = "" if price_per_hour is None else f"{money(standing.cost, price_per_hour):.2f}"
    return minutes(standing.cost.gpu_s), minutes(standing.cost.cpu_s), price


_PLAIN_EVERY_S = 10.0  # on a stream that is no terminal


def describe_runs(found: RunList) -> str:
    known = zip(found.runs, found.gpus_say, strict=True)
    return "\n".join(line for run, says in known for line in lines(run, found.price_per_hour, says))


def lines(
    standing: RunStatus, price_per_hour: float | None = None, gpus_say: Sequence[str] = ()
) -> list[str]:
    """Which run it is, how far, its best kernel, what it took so far where that was noted, and how fast each
    of its GPUs is where it has several.
    """
    run, key = standing.run, standing.run.key
    name = f" '{run.name}'" if run.name else ""
    on = f" on {standing.host}" if standing.host else ""
    by = f", process {standing.process}{on}" if standing.process is not None else ""
    what = problem_name(key.problem)
    head = f"run {run.id}{name}: {what} on {key.gpu}, {key.basis}, {key.search_name} seed {key.seed}"
    took = [f"  {words}" for words in [cost_in_words(standing.cost, price_per_hour)] if words]
    fast = [f"  {words}" for words in gpus_say]
    return [
        head,
        f"  {state(standing)}{by}: {_progress_text(standing)}",
        f"  {_best(standing)}",
        *took,
        *fast,
    ]


def _progress_text(standing: RunStatus) -> str:
    budget = standing.run.budget
    of = f" of {budget}" if budget else ""
    twins = f", {standing.duplicates} duplicates" if standing.duplicates else ""
    words = f"{standing.evaluated}{of} evaluated, {standing.correct} correct{twins}"
    if standing.process is None:
        return f"{words}; the newest {_age(age_s(standing))} ago"
    rate = f"; {standing.per_s:.2g}/s" if standing.per_s else ""
    left = f", {_duration(standing.left_s)} left" if standing.left_s is not None else ""
    return f"{words}{rate}{left}"


def _best_time(standing: RunStatus) -> str:
    """With the mark of an estimate."""
    return "" if standing.best_us is None else f"{'~' * standing.is_estimate}{standing.best_us:.2f}"


def _best(standing: RunStatus) -> str:
    if standing.best_us is None:
        return "no correct kernel so far"
    mark = " ESTIMATED, not measured" if standing.is_estimate else ""
    since = standing.since_best
    when = (
        "the newest one" if since == 0 else "1 evaluation ago" if since == 1 else f"{since} evaluations ago"
    )
    return f"best {_best_time(standing)} us{mark}, {standing.best_id}, {when}"


def _age(seconds: float) -> str:
    """`18 s`, `5 min`, `3 h 20 min` or `2 days`."""
    s = round(max(seconds, 0.0))
    if s < 120:
        return f"{s} s"
    minutes, hours = s // 60, s // 3600
    if minutes < 120:
        return f"{minutes} min"
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} days"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(max(seconds, 0.0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def watch(looks: Iterable[Sequence[RunStatus]], console: Console) -> Sequence[RunStatus]:
    """Draw the runs at each look until no process works on them any more; how they stood then."""
    found: Sequence[RunStatus] = ()
    said = 0.0
    with Live(console=console, auto_refresh=False) as live:
        for found in looks:
            is_over = all(standing.process is None for standing in found)
            if console.is_terminal:
                live.update(Group(*(_draw_run(each, console.width) for each in found)), refresh=True)
            elif is_over or time.monotonic() - said >= _PLAIN_EVERY_S:
                said = time.monotonic()
                for each in found:
                    console.print("\n".join(lines(each)), markup=False, highlight=False, soft_wrap=True)
    return found


def _draw_run(standing: RunStatus, width: int) -> Group:
    text = Text(wrap("\n".join(lines(standing)), width))
    if not standing.run.budget:
        return Group(text)
    bar = ProgressBar(total=standing.run.budget, completed=standing.evaluated, width=40)
    return Group(text, bar)


def cost_in_words(cost: ComputeCost | None, price_per_hour: float | None = None) -> str:
    """`3.6 GPU minutes, 12.4 CPU minutes`, with a price also the money; empty where it was not noted.

    Where no GPU was used, the CPU minutes alone.
    """
    if cost is None:
        return ""
    words = f"{minutes(cost.cpu_s)} CPU minutes"
    if not cost.gpu_s:
        return words
    words = f"{minutes(cost.gpu_s)} GPU minutes, {words}"
    if price_per_hour is None:
        return words
    return f"{words}; {money(cost, price_per_hour):.2f} at {price_per_hour:.2f} for a GPU hour"


def minutes(seconds: float) -> str:
    """`0.05`, `0.4`, `12.4` or `310`; `0` where there were none."""
    number = seconds / 60
    digits = 0 if number >= 100 or not number else 1 if number >= 0.095 else 2
    return f"{number:.{digits}f}"


MOST = 50  # findings of a database that are listed


def describe_health(label: str, health: Health) -> str:
    """How many rows each table has, then a line for each finding."""
    return "\n".join(_health_lines(label, health))


def _health_lines(label: str, health: Health) -> Iterator[str]:
    yield f"{label}: revision {health.revision or 'unknown'}"
    for table, rows in health.rows.items():
        yield f"{rows:9,d}  {table}" if rows >= 0 else f"  missing  {table}"
    yield from (f"wrong: {_finding_text(finding)}" for finding in health.findings[:MOST])
    if len(health.findings) > MOST:
        yield f"and {len(health.findings) - MOST} more: --json lists all of them."
    if not health.findings:
        yield "nothing is wrong with it."


def _finding_text(finding: Defect) -> str:
    row = f", row {finding.row}" if finding.row else ""
    return f"{finding.table}{row}: {finding.what}" if finding.table else finding.what


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
