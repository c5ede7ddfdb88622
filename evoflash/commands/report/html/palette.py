"""A family's colour and shape, the same in every chart. Draws a mark, and knows no report."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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
