"""The plots of a benchmark's page, as SVG text; colours come from the page's style. Computes no statistics.

How much slower than the optimum the best so far is stands on a logarithmic axis, the quartiles of all seeds
as a band around the median.
"""

import math
from collections.abc import Callable, Sequence
from html import escape

from evoflash.replay.benchmark import Row, Space

WIDTH, HEIGHT = 300, 190
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 8, 30
_TICKS = (1.0, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0)
_LOWEST = 0.002  # of best over optimum less 1: what is nearer is drawn there

Point = tuple[float, float]


def curves(space: Space, row: Row, reference: Row | None) -> str:
    """One contender: its median with quartiles, the reference's median, and random search's expectation."""
    x, y = _scales(space)
    quartiles = list(enumerate(row.quartiles, 1))
    band = [(x(k), y(high)) for k, (_, _, high) in quartiles]
    band += [(x(k), y(low)) for k, (low, _, _) in reversed(quartiles)]
    parts = [_axes(space, x, y), f'<polygon class="band" points="{_points(band)}"/>']
    parts.append(_line("random", [(x(k), y(best)) for k, best in enumerate(space.expected, 1)]))
    if reference is not None and reference is not row:
        middle = [(x(k), y(each[1])) for k, each in enumerate(reference.quartiles, 1)]
        parts.append(_line("reference", middle))
    parts.append(_line("median", [(x(k), y(middle)) for k, (_, middle, _) in quartiles]))
    label = f"{row.name} on {space.problem}: time of the best over the optimum, by evaluations"
    return _svg(WIDTH, HEIGHT, label, parts)


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


def scores(space: Space, *, row_height: int = 22) -> str:
    """P of every seed as a dot, each contender a line, with its mean and the 95 % interval of the mean."""
    left, width = 180, 760
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
    return _svg(width, height, f"P of every seed on {space.problem}", parts)


def _line(kind: str, points: Sequence[Point]) -> str:
    return f'<polyline class="{kind}" points="{_points(points)}"/>'


def _points(points: Sequence[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _svg(width: int, height: int, label: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label, quote=True)}">'
        f"{''.join(parts)}</svg>"
    )
