"""Shows a portfolio as tables. Computes nothing but sums."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Console
from rich.markup import escape

from evoflash.app.portfolio.choice import form_of
from evoflash.app.portfolio.run import PortfolioResult, ServedShape, at_borders, regret, serve_mix
from evoflash.estimate_error import error_in_words
from evoflash.evaluation import Basis
from evoflash.views.tables import Column, print_table


def print_text(found: PortfolioResult, console: Console) -> None:
    """What it costs, the kernels, a table for each compile key, the borders, and notes."""
    rows = serve_mix(found)
    for line in (*_head(found, rows), "", *_kernels(found, rows), ""):
        console.print(escape(line), highlight=False, soft_wrap=not console.is_terminal)
    ordered = sorted(rows, key=lambda row: _key(row, found))
    for key, group in groupby(ordered, key=lambda row: _key(row, found)):
        print_table(_columns(found, list(group)), console, title=key)
        console.print()
    for line in (*_borders(found), *_notes(found, rows)):
        console.print(escape(line), highlight=False, soft_wrap=not console.is_terminal)


def _key(row: ServedShape, found: PortfolioResult) -> str:
    return str(row.workload.compile_key(found.spec.arch)).rpartition(",")[0]


def _head(found: PortfolioResult, rows: Sequence[ServedShape]) -> Iterator[str]:
    costs = regret(rows)
    basis = "measured" if found.table.basis is Basis.MEASURED else "ESTIMATED by a model, not measured"
    kernels = "1 kernel" if len(found.kernels) == 1 else f"{len(found.kernels)} kernels"
    yield f"{kernels} of {len(found.table.kernels)} for {len(rows)} shapes on {found.spec.name}, {basis}"
    mark = _mark(found)
    yield f"regret beside the fastest of all on each shape: mean {mark}{costs.mean:.2%} by weight,"
    yield f"{mark}{costs.plain_mean:.2%} with all shapes alike, worst {mark}{costs.worst:.2%}"
    counts = ", ".join(f"{len(each.kernels)}: {mark}{each.mean:.2%}" for each in found.by_count)
    how = "the best set of all" if found.choice.is_exact else "found by exchanges; a better set is possible"
    yield f"mean by the number of kernels: {counts} ({how})"


def _mark(found: PortfolioResult) -> str:
    return "" if found.table.basis is Basis.MEASURED else "~"


def _kernels(found: PortfolioResult, rows: Sequence[ServedShape]) -> Iterator[str]:
    for number, name in enumerate(found.kernels):
        mine = [row for row in rows if row.kernel == name]
        share = sum(row.weight for row in mine)
        family = found.table.kernel(name).family
        yield f"kernel {number}  {name}  {family}: {len(mine)} shapes, {share:.0%} of the mix"


def _columns(found: PortfolioResult, rows: Sequence[ServedShape]) -> list[Column]:
    form = form_of(rows[0].workload)
    sizes = [form.columns(row.workload) for row in rows]
    mark = _mark(found)
    columns = [
        *(
            Column(title, tuple(each[title] for each in sizes), 4 if "/" in title else 0)
            for title in sizes[0]
        ),
        Column("weight", tuple(f"{row.weight:.1%}" for row in rows), 2),
        Column("kernel", tuple(str(found.kernels.index(row.kernel)) if row.kernel else "-" for row in rows)),
        Column("us", tuple(f"{mark}{row.time.us:.2f}" if row.time else "" for row in rows)),
        Column("best", tuple(f"{mark}{row.best_us:.2f}" if row.best_us else "" for row in rows), 1),
        Column("regret", tuple(_cost(row, mark) for row in rows)),
        Column(form.library[1], tuple(map(_library_time, rows)), 3),
    ]
    return [column for column in columns if any(column.cells)]


def _library_time(row: ServedShape) -> str:
    return f"{row.library_us:.2f}" if row.library_us else ""


def _cost(row: ServedShape, mark: str) -> str:
    """The regret and half the width of its interval."""
    if row.time is None or row.regret is None or row.best_us is None:
        return ""
    if row.time.is_rough:
        return f"{mark}{row.regret:.1%} rough"
    reach = (row.time.high_us - row.time.low_us) / 2 / row.best_us
    return f"{mark}{row.regret:.1%} ±{reach:.1%}" if reach else f"{mark}{row.regret:.1%}"


def _borders(found: PortfolioResult) -> Iterator[str]:
    rows = at_borders(found)
    timed = [row for row in rows if row.time]
    if not rows:
        yield "borders: none; no two neighbouring shapes get different kernels"
        return
    checked = sum(row.time.is_checked for row in timed if row.time)
    measured = found.table.basis is Basis.MEASURED
    how = f"{'timed' if measured else 'ESTIMATED'}, {checked} {'judged' if measured else 'emulated'}"
    if timed:
        worst = max(timed, key=lambda row: row.regret or 0.0)
        yield (
            f"borders: {len(timed)} of {len(rows)} shapes beside a border {how}; at most "
            f"{_mark(found)}{worst.regret or 0.0:.1%} slower than another of these kernels ({worst.workload})"
        )
    if len(timed) < len(rows):
        missing = len(rows) - len(timed)
        yield f"borders: {missing} shapes beside one are not timed: run this on a {found.spec.name}"


def _notes(found: PortfolioResult, rows: Sequence[ServedShape]) -> Iterator[str]:
    if found.table.basis is not Basis.MEASURED:
        families = dict.fromkeys(found.table.kernel(name).family for name in found.kernels)
        yield from (f"note: {error_in_words(found.spec.name, family)}" for family in families)
    left_out = [row for row in rows if not row.kernel]
    for row in left_out:
        table_row = found.table.row(row.workload)
        reasons = sorted(set(table_row.absent.values())) if table_row and not row.best else []
        why = reasons[0] if reasons else "none of the kept kernels computes it; more --kernels would"
        yield f"note: {row.workload} falls back to {form_of(row.workload).library[0]}: {why}"
    slower = [row for row in rows if row.time and row.library_us and row.library_us < row.time.us]
    if slower:
        first, many = slower[0].workload, len(slower)
        yield f"note: {form_of(first).library[0]} is faster on {many} of the shapes, for example {first}"
    rough = [row for row in rows if row.time and row.time.is_rough]
    if rough:
        yield f"note: times from three turns at most: {len(rough)}; more --minutes make them sure"
