"""The frame of an SVG chart, its scales, ticks and axes, and a colour and a mark for each family.

A family looks the same in every chart. Draws no data, and knows no report.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDE, NARROW = 760, 360


@dataclass(frozen=True, slots=True)
class AxisScale:
    """From numbers to places; `low` and `high` are drawn at `start` and `end`."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False
    is_whole: bool = False  # only whole numbers are ticks

    def __call__(self, value: float) -> float:
        """The place of a value; what lies outside is drawn at the edge."""
        low, high, value = (math.log(x) if self.is_log else x for x in (self.low, self.high, value))
        share = (value - low) / (high - low) if high > low else 0.5
        return self.start + (self.end - self.start) * min(max(share, 0.0), 1.0)

    def ticks(self, most: int) -> list[float]:
        """Round numbers, `most` at most."""
        found = _log_ticks(self.low, self.high, most) if self.is_log else _ticks(self.low, self.high, most)
        return [tick for tick in found if tick == round(tick)] if self.is_whole else found


def _ticks(low: float, high: float, most: int) -> list[float]:
    if high <= low:
        return [low]
    step = 10 ** math.floor(math.log10((high - low) / most))
    step = next(step * times for times in (1, 2, 5, 10, 20, 50) if (high - low) / (step * times) <= most)
    first = math.ceil(low / step - 1e-9)
    return [round(at * step, 12) for at in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1, 1.5, 2, 3, 4, 5, 7), (1, 2, 5), (1, 3), (1,)):
        found = [digit * 10.0**decade for decade in decades for digit in digits]
        found = [tick for tick in found if low * 0.999 <= tick <= high * 1.001]
        if 3 <= len(found) <= most:
            return found
    return found if 1 < len(found) <= most else _ticks(low, high, most)


@dataclass(frozen=True, slots=True)
class ChartFrame:
    """A chart's size and its two scales."""

    width: int
    height: int
    x: AxisScale
    y: AxisScale
    floor: float  # where the lower axis is; below y's start where a strip is free above it

    def axes(self, x_name: str, y_name: str, *, x_most: int = 8, y_most: int = 6) -> str:
        """Grid lines, numbers and names."""
        left, right = self.x.start, self.x.end
        bottom = self.floor
        parts = []
        for tick in self.y.ticks(y_most):
            at = self.y(tick)
            parts.append(line("grid", left, at, right, at) + text(left - 5, at + 4, _number(tick), "end"))
        for tick in self.x.ticks(x_most if self.width > NARROW else x_most // 2):
            at = self.x(tick)
            parts.append(line("grid", at, bottom, at, bottom + 4) + text(at, bottom + 17, _number(tick)))
        parts.append(line("axis", left, bottom, right, bottom))
        parts.append(text((left + right) / 2, bottom + 34, x_name))
        parts.append(text(4, self.y.end - 9, y_name, "start"))
        return "".join(parts)


def make_frame(
    width: int,
    height: int,
    xs: Sequence[float],
    ys: Sequence[float],
    *,
    log_x: bool = False,
    log_y: bool = False,
    strip: int = 0,
) -> ChartFrame:
    """A frame that holds these values with a margin; `strip` pixels stay free above the lower axis."""
    left, right, top, bottom = 52, 12, 24, 42
    whole = all(isinstance(value, int) for value in xs)
    x = AxisScale(*_span(xs, log=log_x, pad=0.0), left, width - right, log_x, is_whole=whole)
    y = AxisScale(*_span(ys, log=log_y, pad=0.06), height - bottom - strip, top, log_y)
    return ChartFrame(width, height, x, y, height - bottom)


def _span(values: Sequence[float], *, log: bool, pad: float) -> tuple[float, float]:
    low, high = min(values), max(values)
    if log:
        reach = max(math.log(high / low), 0.02) * pad
        return low * math.exp(-reach), high * math.exp(reach)
    reach = max(high - low, abs(high) * 1e-3, 1e-9) * pad
    return low - reach, high + reach


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<path class="{kind}" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>'


def text(x: float, y: float, words: str, anchor: str = "middle", kind: str = "tick") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def both(draw: Callable[[int], tuple[int, str]], label: str) -> str:
    """The chart for wide and for narrow screens; `draw` gives height and parts for a width."""
    return "".join(svg(width, *draw(width), label=label) for width in (WIDE, NARROW))


def svg(width: int, height: int, parts: str, *, label: str) -> str:
    """A chart with what it shows in words."""
    kind = "wide" if width == WIDE else "narrow"
    return (
        f'<svg class="{kind}" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(label, quote=True)}">{parts}</svg>'
    )


SHAPES = ("circle", "square", "triangle", "diamond", "pentagon", "star")


@dataclass(frozen=True, slots=True)
class Look:
    """A class of the style sheet, c0 to c5, and one of SHAPES."""

    colour: str
    shape: str


def looks(families: Iterable[str]) -> Mapping[str, Look]:
    """In alphabetical order; from the seventh family on they come again."""
    names = sorted(set(families))
    return {name: Look(f"c{at % 6}", SHAPES[at % 6]) for at, name in enumerate(names)}


def path(shape: str, x: float, y: float, r: float) -> str:
    """An SVG path of a shape of about that radius."""
    if shape == "circle":
        return f"M{x - r:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0z"
    corners = {
        "square": _around(4, r * 1.2, math.pi / 4),
        "triangle": _around(3, r * 1.4, -math.pi / 2),
        "diamond": _around(4, r * 1.35, 0.0),
        "pentagon": _around(5, r * 1.15, -math.pi / 2),
        "star": _star(r * 1.5),
    }[shape]
    return "M" + "L".join(f"{x + dx:.1f} {y + dy:.1f}" for dx, dy in corners) + "z"


def cross(x: float, y: float, r: float) -> str:
    """An x, for what has no time."""
    return f"M{x - r:.1f} {y - r:.1f}l{2 * r} {2 * r}m0 {-2 * r}l{-2 * r} {2 * r}"


def _around(corners: int, r: float, start: float) -> list[tuple[float, float]]:
    angles = (start + 2 * math.pi * at / corners for at in range(corners))
    return [(r * math.cos(angle), r * math.sin(angle)) for angle in angles]


def _star(r: float) -> list[tuple[float, float]]:
    outer, inner = _around(5, r, -math.pi / 2), _around(5, r * 0.45, -math.pi / 2 + math.pi / 5)
    return [corner for pair in zip(outer, inner, strict=True) for corner in pair]
