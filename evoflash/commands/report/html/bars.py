"""Charts in rows: bars with a number behind each, and ratios with their intervals. Computes nothing."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from evoflash.commands.report.html.charts import mark
from evoflash.commands.report.html.frame import NARROW, both, line, text
from evoflash.commands.report.html.palette import path

_ROW, _CHARACTER, _LABEL = 24, 7.7, 50  # pixels: of a row, of a letter, of a percentage on the axis
_MOST_LETTERS = {760: 34, 360: 22}


@dataclass(frozen=True, slots=True)
class Bar:
    """A row: its name, its length, what stands behind it, and a class of the style sheet."""

    name: str
    value: float
    words: str
    kind: str = "c0"
    part: float = 0.0  # of the value, drawn in another colour at its end


def bars(rows: Sequence[Bar], label: str) -> str:
    """Bars from 0 on, in the order given."""
    most = max((row.value for row in rows), default=0.0) or 1.0
    if not rows:
        return ""

    def draw(width: int) -> tuple[int, str]:
        left, behind = _left([row.name for row in rows], width), max(len(row.words) for row in rows)
        room = width - left - behind * _CHARACTER - 14
        return _ROW * len(rows) + 6, "".join(
            _bar(row, _ROW * at + 4, left, room / most, width) for at, row in enumerate(rows)
        )

    return both(draw, f"{label}: {'; '.join(f'{row.name} {row.words}' for row in rows)}.")


def _left(names: Sequence[str], width: int) -> float:
    return min(max(map(len, names)), _MOST_LETTERS[width]) * _CHARACTER + 12


def _fitting(name: str, width: int) -> str:
    most = _MOST_LETTERS[width]
    return name if len(name) <= most else name[: most - 3] + "..."


def _bar(row: Bar, y: float, left: float, scale: float, width: int) -> str:
    long, part = max(row.value * scale, 1.0), row.part * scale
    tip = f"{row.name}: {row.words}"
    shape = f"M{left:.1f} {y}h{long - part:.1f}v{_ROW - 8}h{part - long:.1f}z"
    parts = [text(left - 6, y + 12, _fitting(row.name, width), "end", "name"), mark(shape, row.kind, tip)]
    if part:
        parts.append(mark(f"M{left + long - part:.1f} {y}h{part:.1f}v{_ROW - 8}h{-part:.1f}z", "lost", tip))
    parts.append(text(left + long + 6, y + 12, row.words, "start", "name"))
    return "".join(parts)


@dataclass(frozen=True, slots=True)
class Span:
    """A ratio with its interval."""

    name: str
    ratio: float
    low: float
    high: float
    words: str
    group: str = ""  # stands above the first row that has it


def spans(rows: Sequence[Span], label: str, *, names: tuple[str, str]) -> str:
    """Ratios on a logarithmic axis around 1; `names` say what lies left and right of it."""
    if not rows:
        return ""
    reach = max(abs(math.log(end)) for row in rows for end in (row.low, row.high, 1.05))

    def draw(width: int) -> tuple[int, str]:
        left = _left([row.name for row in rows], width)
        right = 16.0

        def x(ratio: float) -> float:
            return left + (width - left - right) * (math.log(ratio) + reach) / (2 * reach)

        lines = _with_groups(rows)
        bottom = _ROW * len(lines) + 6
        parts = [line("axis", x(1), 0, x(1), bottom)]
        for ratio in _apart(_ratios(reach, 4 if width == NARROW else 8), x):
            parts.append(
                line("grid", x(ratio), 0, x(ratio), bottom) + text(x(ratio), bottom + 14, _percent(ratio))
            )
        parts.append(text(left, bottom + 30, f"\u2190 {names[0]}", "start"))
        parts.append(text(width - right, bottom + 30, f"{names[1]} \u2192", "end"))
        for at, row in enumerate(lines):
            y = _ROW * (at + 0.5) + 2
            if isinstance(row, str):
                parts.append(text(2, y + 4, row, "start", "group"))
                continue
            kind = "c2" if row.high < 1 else "c1" if row.low > 1 else "c0"
            parts.append(text(left - 8, y + 4, _fitting(row.name, width), "end", "name"))
            parts.append(line(f"interval {kind}", x(row.low), y, x(row.high), y))
            shape = "circle" if kind == "c0" else "diamond"
            parts.append(mark(path(shape, x(row.ratio), y, 4.5), kind, f"{row.name}: {row.words}"))
        return bottom + 36, "".join(parts)

    return both(draw, label)


def _apart(ratios: Iterable[float], x: Callable[[float], float]) -> list[float]:
    """Those whose labels do not touch, the nearest to 1 first."""
    kept: list[float] = []
    for ratio in sorted(ratios, key=lambda ratio: abs(math.log(ratio))):
        if all(abs(x(ratio) - x(other)) >= _LABEL for other in kept):
            kept.append(ratio)
    return kept


def _with_groups(rows: Sequence[Span]) -> list[Span | str]:
    lines: list[Span | str] = []
    for at, row in enumerate(rows):
        if row.group and (at == 0 or rows[at - 1].group != row.group):
            lines.append(row.group)
        lines.append(row)
    return lines


def _ratios(reach: float, most: int) -> list[float]:
    """Round percentages to both sides of none, as ratios; far from it only some of them."""
    low, high = math.exp(-reach), math.exp(reach)
    step = next(
        s for s in (1, 2, 5, 10, 20, 25, 50, 100, 500, 10_000) if 100 * (high - low) / s <= 1.4 * most
    )
    below = range(0, -100, -min(step, 50))
    found = [1 + percent / 100 for percent in (*below, *range(step, int(100 * (high - 1)) + 1, step))]
    return sorted(ratio for ratio in found if low <= ratio <= high)


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.0f} %" if ratio != 1 else "0"
