"""Two repeated searches as one HTML page with their curves, in light and dark. Computes no statistics.

The page needs no other file. It has the style of a benchmark's page.
"""

import math
from collections.abc import Sequence
from html import escape

from evoflash.app.catalogue import problem_name
from evoflash.app.repeats import RepeatedSearch, SearchComparison
from evoflash.version import __version__
from evoflash.views.html.benchmark import document, points_text, polyline, svg_element
from evoflash.views.runs import answer, us_text

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 320, 64, 14, 10, 34


def page(found: SearchComparison) -> str:
    """The whole page: who is compared, the curves with their quartiles, the pairs and the answer."""
    key = found.first.run.key
    parts = [
        f"<h1>{escape(problem_name(key.problem))} on {escape(key.gpu)}, {escape(key.basis)}</h1>",
        f"<p>A (line): {escape(found.first.name)}<br>B (dashed): {escape(found.second.name)}</p>",
        *(f"<p>{escape(line)}</p>" for line in answer(found)),
        f'<div class="wide">{_curves(found).replace("<svg ", "<svg class=all ", 1)}</div>',
        "<p>Median of the best times so far in us, by evaluations; the band has the middle half of A's "
        "seeds.</p>",
        _pairs(found),
        f'<p class="soft">Made by evoflash {escape(__version__)}.</p>',
    ]
    return document("evoflash runs compare", parts)


def _curves(found: SearchComparison) -> str:
    bands = [
        [one.quartiles(at) for at in range(1, found.evaluations + 1)] for one in (found.first, found.second)
    ]
    known = [us for band in bands for each in band for us in each if math.isfinite(us)]
    label = "Best times so far of both searches, by evaluations"
    if not known:
        return svg_element(_WIDTH, _HEIGHT, label, [])
    low, high = math.log(min(known)), math.log(max(known)) + 1e-9

    def x(after: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * after / found.evaluations

    def y(us: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - (math.log(us) - low) / (high - low))

    def line(kind: str, which: Sequence[tuple[float, float, float]], at: int) -> str:
        points = [(x(n), y(each[at])) for n, each in enumerate(which, 1) if math.isfinite(each[at])]
        return polyline(kind, points)

    mark = "~" * (found.first.is_estimate or found.second.is_estimate)
    parts = [
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(us):.1f}" y2="{y(us):.1f}"/>'
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
        _WIDTH, _HEIGHT, label, [*parts, line("reference", bands[1], 1), line("median", bands[0], 1)]
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
