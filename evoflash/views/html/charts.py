"""A report's charts as SVG (best so far, candidates, lineage, roofline, bars, ratios). No statistics."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from evoflash.app.report.record import short
from evoflash.views.html.svg import NARROW, ChartFrame, Look, both, cross, line, make_frame, path, text

Json = Mapping[str, Any]
_HEIGHT = {760: 320, 360: 290}
_STRIP = 26  # pixels for candidates without a time
_FAR = 4.0  # from which ratio of times on an axis is logarithmic
_APART = 1.25  # ratio of two roofs that have room for a name each
_SLOWEST = 0.9  # share of the candidates that the chart is scaled to; the rest stands at its upper edge


def _far(values: Sequence[float]) -> bool:
    return max(values) / min(values) > _FAR


def mark(shape: str, kind: str, tip: str, *, id: str = "") -> str:
    """A place of a chart that says what it is when it is pointed at."""
    goes = f' data-id="{escape(id, quote=True)}"' if id else ""
    return f'<path class="mark {kind}" d="{shape}" data-tip="{escape(tip, quote=True)}"{goes}/>'


# ---- best so far


def progress(found: Json, estimate: str) -> str:
    """The best so far, the random searches' dashed, the fastest seed dotted."""
    best, evaluated = found["best"], found["evaluated"]
    curves = [each["best"] for each in found["random"] if each["best"]]
    seed = [found["seed_us"]] if found["seed_us"] else []
    ys = [point["us"] for curve in (best, *curves) for point in curve] + seed
    if not best:
        return ""

    def draw(width: int) -> tuple[int, str]:
        height = _HEIGHT[width]
        frame = make_frame(width, height, [1, max(evaluated, 2)], ys, log_y=_far(ys))
        parts = [frame.axes("evaluations", f"best so far, {estimate}us")]
        parts += [
            _steps(frame, curve, "random", min(evaluated, run["evaluated"]))
            for curve, run in zip(curves, (each for each in found["random"] if each["best"]), strict=True)
        ]
        if seed:
            at = frame.y(seed[0])
            parts.append(line("seed", frame.x.start, at, frame.x.end, at))
            parts.append(text(frame.x.end, at - 5, f"fastest seed {estimate}{short(seed[0])}", "end"))
        parts.append(_steps(frame, best, "best", evaluated))
        parts += [
            mark(
                path("circle", frame.x(point["evaluations"]), frame.y(point["us"]), 4),
                "c0",
                f"{estimate}{short(point['us'])} us after {point['evaluations']} evaluations: {point['id']}",
                id=point["id"],
            )
            for point in best
        ]
        return height, "".join(parts)

    last = best[-1]
    return both(
        draw,
        f"Best time so far by evaluations: from {estimate}{short(best[0]['us'])} to {estimate}"
        f"{short(last['us'])} us after {last['evaluations']} of {evaluated} evaluations.",
    )


def _steps(frame: ChartFrame, curve: Sequence[Json], kind: str, until: int) -> str:
    first = curve[0]
    parts = [f"M{frame.x(first['evaluations']):.1f} {frame.y(first['us']):.1f}"]
    for point in curve[1:]:
        if point["evaluations"] <= until:
            parts.append(f"H{frame.x(point['evaluations']):.1f}V{frame.y(point['us']):.1f}")
    parts.append(f"H{frame.x(until):.1f}")
    return f'<path class="curve {kind}" d="{"".join(parts)}"/>'


# ---- every candidate


def candidates(rows: Sequence[Json], looks: Mapping[str, Look], estimate: str) -> str:
    """Each candidate's time by its place in the search; what has none stands as an x below."""
    timed = [row for row in rows if row["us"]]
    ends = len(rows) > len(timed)
    if not rows:
        return ""
    times = sorted(row["us"] for row in timed) or [1.0]
    high = max(times[int(_SLOWEST * (len(times) - 1))], times[0] * 1.02)
    above = sum(us > high for us in times)

    def draw(width: int) -> tuple[int, str]:
        height = _HEIGHT[width] + (_STRIP if ends else 0)
        frame = make_frame(
            width,
            height,
            [1, max(len(rows), 2)],
            [times[0], high],
            log_y=_far([times[0], high]),
            strip=_STRIP if ends else 0,
        )
        parts = [frame.axes("proposals in their order", f"time, {estimate}us")]
        parts += [_candidate(row, frame, looks[row["family"]], estimate) for row in rows]
        return height, "".join(parts)

    said = f"{len(timed)} candidates with a time, {len(rows) - len(timed)} without."
    said += f" The {above} slowest stand at the upper edge." if above else ""
    chart = both(
        draw, f"Time of every candidate by its place in the search. {said} The table has all of them."
    )
    edge = '<p class="soft">Marks at the upper edge are slower than it; the table has their times.</p>'
    return chart + (edge if above else "")


def _candidate(row: Json, frame: ChartFrame, look: Look, estimate: str) -> str:
    x = frame.x(row["n"])
    if not row["us"]:
        tip = f"{row['id']}, {row['family']}: {row['status']} at {row['rung']}"
        return mark(cross(x, frame.floor - _STRIP / 2, 3), "failed", tip, id=row["id"])
    kind = look.colour if row["status"] == "correct" and not row["duplicate_of"] else f"{look.colour} hollow"
    bound = "at least " if row["is_lower_bound"] else ""
    more = f", duplicate of {row['duplicate_of']}" if row["duplicate_of"] else ""
    tip = f"{row['id']}, {row['family']}: {bound}{estimate}{short(row['us'])} us, {row['status']}{more}"
    return mark(path(look.shape, x, frame.y(row["us"]), 3.2), kind, tip, id=row["id"])


# ---- the lineage


def hops(found: Sequence[Json], estimate: str) -> str:
    """The time of each hop, and beside it that of timing all of them again in turns."""
    timed = [(at, hop) for at, hop in enumerate(found) if hop["us"]]
    if len(timed) < 2:
        return ""
    again = [(at, hop["again_us"]) for at, hop in timed if hop["again_us"]]
    ys = [hop["us"] for _, hop in timed] + [us for _, us in again]

    def draw(width: int) -> tuple[int, str]:
        height = 240
        frame = make_frame(width, height, [0, len(found) - 1], ys, log_y=_far(ys))
        points = [(frame.x(at), frame.y(hop["us"])) for at, hop in timed]
        parts = [frame.axes("hops from the first ancestor", f"time, {estimate}us"), _line(points, "best")]
        for (x, y), (_, hop) in zip(points, timed, strict=True):
            tip = f"{hop['id']}: {estimate}{short(hop['us'])} us, {hop['operator']}"
            parts.append(mark(path("circle", x, y, 4.5), "c0", tip, id=hop["id"]))
        parts.append(_line([(frame.x(at), frame.y(us)) for at, us in again], "random"))
        for at, us in again:
            parts.append(mark(path("square", frame.x(at), frame.y(us), 4), "c1", f"again: {short(us)} us"))
        return height, "".join(parts)

    first, last = timed[0][1]["us"], timed[-1][1]["us"]
    label = (
        f"Time hop by hop: from {estimate}{short(first)} to {estimate}{short(last)} us; the table has each."
    )
    return both(draw, label)


def _line(points: Sequence[tuple[float, float]], kind: str) -> str:
    if not points:
        return ""
    return f'<path class="curve {kind}" d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in points)}"/>'


# ---- Pareto fronts


def front(found: Json, looks: Mapping[str, Look], estimate: str) -> str:
    """The front as a line, and the others that are not far slower than it."""
    points, others = found["points"], found["others"]
    last = max(point["figures"][0] for point in points)
    reach = max(last, 1.5 * points[0]["figures"][0])
    near = [point for point in others if point["figures"][0] <= reach]
    ys = [point["figures"][1] for point in (*points, *near)]

    def draw(width: int) -> tuple[int, str]:
        height = 240
        frame = make_frame(width, height, [points[0]["figures"][0] * 0.995, reach * 1.005], ys)
        parts = [frame.axes(f"time, {estimate}us", found["units"][1])]
        parts += _beside_front(near, frame, looks)
        parts.append(_line([(frame.x(p["figures"][0]), frame.y(p["figures"][1])) for p in points], "random"))
        parts += [_on_front(point, frame, looks, estimate, found["units"][1]) for point in points]
        return height, "".join(parts)

    first, second = found["objectives"]
    said = f"{len(points)} kernels are on the front, {len(near)} of {len(others)} others are near it."
    return both(draw, f"Pareto front of {first} against {second}: {said}")


def _beside_front(points: Sequence[Json], frame: ChartFrame, looks: Mapping[str, Look]) -> list[str]:
    """The others of each colour as one path: there are many, and the table of candidates has them all."""
    shapes: defaultdict[str, list[str]] = defaultdict(list)
    for point in points:
        us, other = point["figures"]
        look = looks[point["family"]]
        shapes[look.colour].append(path(look.shape, frame.x(us), frame.y(other), 2.6))
    return [f'<path class="{colour} hollow" d="{"".join(parts)}"/>' for colour, parts in shapes.items()]


def _on_front(point: Json, frame: ChartFrame, looks: Mapping[str, Look], estimate: str, unit: str) -> str:
    us, other = point["figures"]
    look = looks[point["family"]]
    tip = f"{point['id']}, {point['family']}: {estimate}{short(us)} us, {other:.4g} {unit}"
    return mark(path(look.shape, frame.x(us), frame.y(other), 4.5), look.colour, tip, id=point["id"])


# ---- the roofline


def roofline(found: Json, estimate: str) -> str:
    """TFLOPS by FLOPs for each byte: the GPU's roofs, and the kernels on their workload's intensity."""
    peak, dram, own = found["peak_tflops"], found["dram_gbps"], found["intensity"]
    ridge = peak / dram * 1e3
    xs = [min(own, ridge) / 8, max(own, ridge) * 8]
    roofs = _roofs([(each["name"], each["tflops"]) for each in found["floors"] if each["name"] != "dram"])
    rates = [point["tflops"] for point in found["points"]]
    lowest = min([*rates, dram * xs[0] / 1e3, peak / 20])

    def draw(width: int) -> tuple[int, str]:
        height = _HEIGHT[width]
        ys = [lowest * 0.8, max([rate for _, rate in roofs] + rates) * 1.3]
        frame = make_frame(width, height, xs, ys, log_x=True, log_y=True)
        top, end = frame.y.high, xs[1]
        parts = [frame.axes("FLOPs for each byte that must be moved", f"{estimate}TFLOPS")]
        reach = min(top / dram * 1e3, end)
        roof = line(
            "roof", frame.x(xs[0]), frame.y(dram * xs[0] / 1e3), frame.x(reach), frame.y(dram * reach / 1e3)
        )
        parts.append(roof + text(frame.x(xs[0]) + 34, frame.y(dram * xs[0] / 1e3) - 4, "DRAM", "start"))
        for name, rate in roofs:
            at = frame.y(rate)
            parts.append(line("roof", frame.x(xs[0]), at, frame.x(end), at))
            parts.append(text(frame.x(end), at - 5, f"{name} {short(rate)}", "end"))
        parts.append(line("seed", frame.x(own), frame.y.start, frame.x(own), frame.y.end))
        parts += [_rate(point, frame, own, estimate) for point in found["points"]]
        return height, "".join(parts)

    said = "; ".join(f"{point['name']} {short(point['tflops'])}" for point in found["points"])
    return both(
        draw, f"Roofline of {found['workload']}: {estimate}TFLOPS of {said}; the table has the floors."
    )


def _roofs(found: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """The roofs, those that would be drawn on one another under one name."""
    together: list[tuple[str, float]] = []
    for name, rate in sorted(found, key=lambda each: each[1]):
        if together and rate / together[-1][1] < _APART:
            name, rate = f"{together[-1][0]}, {name}", together.pop()[1]
        together.append((name, rate))
    return together


def _rate(point: Json, frame: ChartFrame, intensity: float, estimate: str) -> str:
    looks = {"winner": ("star", "c0"), "seed": ("circle", "c2"), "baseline": ("diamond", "c1")}
    shape, kind = looks[point["kind"]]
    figures = f"{estimate}{short(point['tflops'])} TFLOPS, {estimate}{short(point['us'])} us"
    tip = f"{point['kind']} {point['name']}: {figures}"
    return mark(path(shape, frame.x(intensity), frame.y(point["tflops"]), 5), kind, tip)


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
        left, behind = _left_margin([row.name for row in rows], width), max(len(row.words) for row in rows)
        room = width - left - behind * _CHARACTER - 14
        return _ROW * len(rows) + 6, "".join(
            _bar(row, _ROW * at + 4, left, room / most, width) for at, row in enumerate(rows)
        )

    return both(draw, f"{label}: {'; '.join(f'{row.name} {row.words}' for row in rows)}.")


def _left_margin(names: Sequence[str], width: int) -> float:
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
        left = _left_margin([row.name for row in rows], width)
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
