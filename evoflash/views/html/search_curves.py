"""Curves of searches as HTML pages, of a benchmark and of two repeated searches. Computes no statistics.

A page needs no other file. Its plots are SVG text, whose colours, in light and dark, come from its style.
"""

import math
from collections.abc import Callable, Sequence
from html import escape

from evoflash.app.catalogue import problem_name
from evoflash.app.recordings import Benchmark
from evoflash.app.repeats import RepeatedSearch, SearchComparison
from evoflash.replay.benchmark import BenchmarkRow, Space
from evoflash.version import __version__
from evoflash.views.recordings import cells, legend
from evoflash.views.runs import answer, us_text

WIDTH, HEIGHT = 300, 190
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 8, 30
_TICKS = (1.0, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0)
_LOWEST = 0.002  # of best over optimum less 1: what is nearer is drawn there

Point = tuple[float, float]


def curves(space: Space, row: BenchmarkRow, reference: BenchmarkRow | None) -> str:
    """One contender: its median with quartiles, the reference's median, and random search's expectation."""
    x, y = _scales(space)
    quartiles = list(enumerate(row.quartiles, 1))
    band = [(x(k), y(high)) for k, (_, _, high) in quartiles]
    band += [(x(k), y(low)) for k, (low, _, _) in reversed(quartiles)]
    parts = [_axes(space, x, y), f'<polygon class="band" points="{points_text(band)}"/>']
    parts.append(polyline("random", [(x(k), y(best)) for k, best in enumerate(space.expected, 1)]))
    if reference is not None and reference is not row:
        middle = [(x(k), y(each[1])) for k, each in enumerate(reference.quartiles, 1)]
        parts.append(polyline("reference", middle))
    parts.append(polyline("median", [(x(k), y(middle)) for k, (_, middle, _) in quartiles]))
    label = f"{row.name} on {space.problem}: time of the best over the optimum, by evaluations"
    return svg_element(WIDTH, HEIGHT, label, parts)


def _scales(space: Space) -> tuple[Callable[[float], float], Callable[[float], float]]:
    worst = max(max(each[2] for each in row.quartiles[4:] or row.quartiles) for row in space.rows)
    most = math.log(max(worst - 1, 0.05) / _LOWEST)

    def x(evaluations: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * evaluations / space.budget

    def y(ratio: float) -> float:
        share = math.log(max(ratio - 1, _LOWEST) / _LOWEST) / most
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(share, 1.0)

    return x, y


def _axes(space: Space, x: Callable[[float], float], y: Callable[[float], float]) -> str:
    parts, last = [], math.inf
    for ratio in _TICKS:
        at = y(ratio)
        if last - at < 13 or (at <= TOP and last <= TOP):
            continue
        last = at
        word = "optimum" if ratio == 1 else f"{ratio:g}"
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 4}" y="{at + 3:.1f}" text-anchor="end">{word}</text>')
    for share in (0.25, 0.5, 0.75, 1.0):
        k = round(share * space.budget)
        parts.append(f'<text class="tick" x="{x(k):.1f}" y="{HEIGHT - 16}" text-anchor="middle">{k}</text>')
    parts.append(
        f'<text class="tick" x="{LEFT}" y="{HEIGHT - 4}">evaluations; time of the best over optimum</text>'
    )
    return "".join(parts)


def scores(space: Space) -> str:
    """P of every seed as a dot, each contender a line, with its mean and the 95 % interval of the mean."""
    left, width, row_height = 180, 760, 22
    lowest = max(-2.0, min([-0.2, *(min(row.scores) for row in space.rows)]))
    height = row_height * len(space.rows) + 34

    def x(p: float) -> float:
        return left + (width - left - 36) * (max(p, lowest) - lowest) / (1 - lowest)

    parts = [
        f'<line class="grid" x1="{x(p):.1f}" x2="{x(p):.1f}" y1="4" y2="{height - 28}"/>'
        f'<text class="tick" x="{x(p):.1f}" y="{height - 14}" text-anchor="middle">{word}</text>'
        for p, word in ((lowest, f"{lowest:.1f}"), (0.0, "0 random"), (0.5, "0.5"), (1.0, "1 optimum"))
    ]
    for at, row in enumerate(space.rows):
        y = 4 + row_height * (at + 0.5)
        where = row.standing
        parts.append(
            f'<text class="name" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(row.name)}</text>'
        )
        parts += [f'<circle class="seed" cx="{x(p):.1f}" cy="{y:.1f}" r="2.5"/>' for p in row.scores]
        ends = f'x1="{x(where.score_low):.1f}" x2="{x(where.score_high):.1f}"'
        parts.append(f'<line class="interval" {ends} y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<circle class="mean" cx="{x(where.score):.1f}" cy="{y:.1f}" r="5"/>')
    return svg_element(width, height, f"P of every seed on {space.problem}", parts)


def polyline(kind: str, points: Sequence[Point]) -> str:
    """A curve; `kind` is its class in the page's style."""
    return f'<polyline class="{kind}" points="{points_text(points)}"/>'


def points_text(points: Sequence[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def svg_element(width: int, height: int, label: str, parts: Sequence[str]) -> str:
    """A picture that is as wide as its place."""
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label, quote=True)}">'
        f"{''.join(parts)}</svg>"
    )


STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --soft: #6a737d; --rule: #d8dee4;
  --main: #0b62c4; --other: #c2410c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --soft: #9aa4af;
  --rule: #30363d; --main: #6cb6ff; --other: #ff9b6a; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2em auto;
  max-width: 1020px; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.2em; margin-top: 2.2em; } h3 { font-size: 1em; margin: 0 0 .2em; }
code { font: .9em ui-monospace, monospace; overflow-wrap: anywhere; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25em .8em; text-align: right; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } tr.reference td { font-weight: 600; }
.grid-of-plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(290px, 1fr)); gap: 1.2em; }
svg { width: 100%; height: auto; } svg.all { max-width: 760px; }
svg .grid { stroke: var(--rule); } svg .tick { fill: var(--soft); font-size: 10px; }
svg .name { fill: var(--ink); font-size: 12px; } svg .band { fill: var(--main); opacity: .22; }
svg polyline { fill: none; stroke-width: 2; } svg .median { stroke: var(--main); }
svg .reference { stroke: var(--other); stroke-dasharray: 5 3; }
svg .random { stroke: var(--soft); stroke-dasharray: 2 3; }
svg .seed { fill: var(--soft); opacity: .45; } svg .interval { stroke: var(--main); stroke-width: 3; }
svg .mean { fill: var(--main); } .soft { color: var(--soft); }
"""
_COLUMNS = ("mean P", "median P", "below 0", "within 5 %", "CPU ms", "p", "95 % of mean P", "best", "after")


def page_of_benchmark(found: Benchmark) -> str:
    spaces, how = found.spaces, found.how
    means = ", ".join(f"{escape(name)} {mean:+.2f}" for name, mean in found.overall)
    parts = [
        "<h1>Search strategies on recorded spaces</h1>",
        f"<p>{escape(legend(found))} Best is the median time of the best over the optimum at the end, "
        "after: the median number of evaluations to come within 5 % of the optimum.</p>",
        f"<p>Mean of mean P over {len(spaces)} spaces: {means}.</p>" if len(spaces) > 1 else "",
        *(_section(space, how.reference) for space in spaces),
        f'<p class="soft">Made by <code>{escape(how.command)}</code>, {how.date}, evoflash '
        f"{escape(how.version)}; {escape(', '.join(how.machine.values()))}.</p>",
    ]
    return document("evoflash benchmark-search", parts)


def document(title: str, parts: Sequence[str]) -> str:
    """A page of these parts that needs no other file."""
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    name = f"<title>{escape(title)}</title>"
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}{name}<style>{STYLE}</style></head>\n<body>'
        + "\n".join(parts)
        + "</body></html>\n"
    )


def _section(space: Space, reference_name: str) -> str:
    reference = next((row for row in space.rows if row.name == reference_name), None)
    charts = "\n".join(
        f"<div><h3>{escape(row.name)}</h3>{curves(space, row, reference)}</div>" for row in space.rows
    )
    return (
        f"<h2>{escape(space.title)}</h2>{_table(space, reference_name)}"
        "<p>Each dot is P of one seed; the large dot is the mean, the bar its 95 % interval.</p>"
        '<div class="wide">'
        f"{scores(space).replace('<svg ', '<svg class=all ', 1)}</div>"
        "<p>Best so far: median of the seeds with their quartiles; dashed the median of "
        f"{escape(reference_name)}, dotted what random search is expected to have.</p>"
        f'<div class="grid-of-plots">{charts}</div>'
    )


def _table(space: Space, reference: str) -> str:
    heads = "".join(f"<th>{name}</th>" for name in ("strategy", *_COLUMNS))
    rows = "".join(_row(row, reference) for row in space.rows)
    return f'<div class="wide"><table><tr>{heads}</tr>{rows}</table></div>'


def _row(row: BenchmarkRow, reference: str) -> str:
    where = row.standing
    more = (
        f"{where.score_low:+.2f} to {where.score_high:+.2f}",
        f"{where.best_over_optimum:.3f}",
        "never" if where.near_after is None else str(where.near_after),
    )
    kind = ' class="reference"' if row.name == reference else ""
    words = "".join(f"<td>{escape(word)}</td>" for word in (*cells(row), *more))
    return f"<tr{kind}>{words}</tr>"


_WIDE, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 320, 64, 14, 10, 34


def page_of_comparison(found: SearchComparison) -> str:
    """The whole page: who is compared, the curves with their quartiles, the pairs and the answer."""
    key = found.first.run.key
    parts = [
        f"<h1>{escape(problem_name(key.problem))} on {escape(key.gpu)}, {escape(key.basis)}</h1>",
        f"<p>A (line): {escape(found.first.name)}<br>B (dashed): {escape(found.second.name)}</p>",
        *(f"<p>{escape(line)}</p>" for line in answer(found)),
        f'<div class="wide">{_compared_curves(found).replace("<svg ", "<svg class=all ", 1)}</div>',
        "<p>Median of the best times so far in us, by evaluations; the band has the middle half of A's "
        "seeds.</p>",
        _pairs(found),
        f'<p class="soft">Made by evoflash {escape(__version__)}.</p>',
    ]
    return document("evoflash runs compare", parts)


def _compared_curves(found: SearchComparison) -> str:
    bands = [
        [one.quartiles(at) for at in range(1, found.evaluations + 1)] for one in (found.first, found.second)
    ]
    known = [us for band in bands for each in band for us in each if math.isfinite(us)]
    label = "Best times so far of both searches, by evaluations"
    if not known:
        return svg_element(_WIDE, _HEIGHT, label, [])
    low, high = math.log(min(known)), math.log(max(known)) + 1e-9

    def x(after: float) -> float:
        return _LEFT + (_WIDE - _LEFT - _RIGHT) * after / found.evaluations

    def y(us: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - (math.log(us) - low) / (high - low))

    def line(kind: str, which: Sequence[tuple[float, float, float]], at: int) -> str:
        points = [(x(n), y(each[at])) for n, each in enumerate(which, 1) if math.isfinite(each[at])]
        return polyline(kind, points)

    mark = "~" * (found.first.is_estimate or found.second.is_estimate)
    parts = [
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDE - _RIGHT}" y1="{y(us):.1f}" y2="{y(us):.1f}"/>'
        f'<text class="tick" x="{_LEFT - 6}" y="{y(us) + 3:.1f}" text-anchor="end">{us_text(us, mark)}</text>'
        for us in (math.exp(low + share * (high - low)) for share in (0, 0.25, 0.5, 0.75, 1))
    ]
    parts += [
        f'<text class="tick" x="{x(n):.1f}" y="{_HEIGHT - 16}" text-anchor="middle">{n}</text>'
        for n in dict.fromkeys(max(1, round(share * found.evaluations)) for share in (0.25, 0.5, 0.75, 1))
    ]
    finite = [(n, each) for n, each in enumerate(bands[0], 1) if all(map(math.isfinite, each))]
    edge = [(x(n), y(each[2])) for n, each in finite] + [(x(n), y(each[0])) for n, each in reversed(finite)]
    parts.append(f'<polygon class="band" points="{points_text(edge)}"/>')
    return svg_element(
        _WIDE, _HEIGHT, label, [*parts, line("reference", bands[1], 1), line("median", bands[0], 1)]
    )


def _pairs(found: SearchComparison) -> str:
    def mark(one: RepeatedSearch) -> str:
        return "~" * one.is_estimate

    rows = "".join(
        f"<tr><td>{seed}</td><td>{us_text(one, mark(found.first))}</td>"
        f"<td>{us_text(other, mark(found.second))}</td><td>{one / other:.3f}</td></tr>"
        for seed, one, other in found.pairs
    )
    head = "<tr><th>seed</th><th>A, us</th><th>B, us</th><th>A over B</th></tr>"
    return f'<div class="wide"><table>{head}{rows}</table></div>' if rows else ""
