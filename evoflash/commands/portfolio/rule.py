"""The rule by which a dispatcher tells shapes apart, and the shapes at its borders. Measures nothing.

A rule is learnt: each shape that was timed becomes a point with the fastest of the kept kernels there.
runtime/dispatch.py has the rest, and is what is asked here too, so that what is reported is what users get.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evoflash.operation import Workload
from evoflash.runtime.dispatch import VERSION, Dispatcher, corner

REACH = 2.0  # octaves: a shape four times as long as any that was timed is not known to be fast
_STEPS = 256  # on the way from one point to its neighbour
_SIZES = ("batch", "heads", "kv_heads", "seq_q", "seq_kv")

Assigned = Mapping[Workload, int]  # the number of the kernel for each point


@dataclass(frozen=True, slots=True)
class Border:
    """Two shapes that differ as little as can be and get different kernels, or one of them the fallback."""

    first: Workload
    second: Workload
    kernels: tuple[int, int]


def rule_of(assigned: Assigned, arch: str) -> dict[str, Any]:
    """What a Dispatcher takes."""
    keys: dict[tuple[Any, ...], list[list[int]]] = {}
    for workload, kernel in assigned.items():
        sizes = workload.names()
        point = [sizes["batch"] * sizes["heads"], sizes["seq_q"], sizes["seq_kv"], kernel]
        keys.setdefault(key_of(workload, arch), []).append(point)
    names = ("head_dim", "dtype", "causal", "gqa_ratio")
    tables = [{**dict(zip(names, key, strict=True)), "points": points} for key, points in keys.items()]
    return {"version": VERSION, "reach": REACH, "keys": tables}


def key_of(workload: Workload, arch: str) -> tuple[Any, ...]:
    """What a kernel is compiled for, as a dispatcher tells it: head_dim, dtype, causal, gqa_ratio."""
    names = workload.compile_key(arch).names()
    return names["head_dim"], names["dtype"], names["causal"], names["gqa_ratio"]


def ask(dispatcher: Dispatcher, workload: Workload, arch: str) -> int:
    """The kernel that the dispatcher gives a workload."""
    head_dim, dtype, causal, _ = key_of(workload, arch)
    sizes = workload.names()
    return dispatcher.kernel(head_dim, dtype, causal, tuple(sizes[name] for name in _SIZES))  # type: ignore[arg-type]


def bucket(workload: Workload, arch: str) -> tuple[Any, ...]:
    """Shapes of one bucket get one kernel."""
    sizes = workload.names()
    return *key_of(workload, arch), corner((sizes["batch"] * sizes["heads"], sizes["seq_q"], sizes["seq_kv"]))


def borders(assigned: Assigned, arch: str) -> tuple[Border, ...]:
    """Where the rule changes its mind between two neighbouring points: no third one lies between them."""
    dispatcher = Dispatcher(rule_of(assigned, arch))
    found = (
        border
        for first, second in _neighbours(list(assigned), arch)
        if assigned[first] != assigned[second]
        for border in _changes(first, second, dispatcher, arch)
    )
    return tuple(dict.fromkeys(found))


def _neighbours(points: Sequence[Workload], arch: str) -> Iterator[tuple[Workload, Workload]]:
    """Pairs of one compile key with no third point in the ball whose diameter they are (a Gabriel graph)."""
    for at, first in enumerate(points):
        for second in points[at + 1 :]:
            if key_of(first, arch) != key_of(second, arch):
                continue
            middle = [(a + b) / 2 for a, b in zip(place(first), place(second), strict=True)]
            radius = _squared(place(first), middle)
            others = (
                x for x in points if x not in (first, second) and key_of(x, arch) == key_of(first, arch)
            )
            if all(_squared(place(other), middle) >= radius for other in others):
                yield first, second


def place(workload: Workload) -> tuple[float, float, float]:
    """Where a shape lies, in octaves: batch * heads, seq_q, seq_kv."""
    sizes = workload.names()
    return tuple(math.log2(n) for n in (sizes["batch"] * sizes["heads"], sizes["seq_q"], sizes["seq_kv"]))  # type: ignore[return-value]


def _squared(a: Sequence[float], b: Sequence[float]) -> float:
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def _changes(first: Workload, second: Workload, dispatcher: Dispatcher, arch: str) -> Iterator[Border]:
    """Each pair of successive shapes on the way from one to the other that get different kernels."""
    before, kernel = first, ask(dispatcher, first, arch)
    for step in range(1, _STEPS + 1):
        here = _between(first, second, step / _STEPS)
        given = ask(dispatcher, here, arch)
        if given != kernel:
            yield Border(before, here, (kernel, given))
        before, kernel = here, given


def _between(first: Workload, second: Workload, part: float) -> Workload:
    """The shape at that part of the way, in octaves; the number of heads is that of the nearer end."""
    a, b = first.names(), second.names()
    lengths = {name: max(1, round(a[name] ** (1 - part) * b[name] ** part)) for name in ("seq_q", "seq_kv")}
    nearer = a if part < 0.5 else b
    rows = (a["batch"] * a["heads"]) ** (1 - part) * (b["batch"] * b["heads"]) ** part
    batch = max(1, round(rows / nearer["heads"]))
    heads = {name: nearer[name] for name in ("heads", "kv_heads")}
    return replace(first, batch=batch, **heads, **lengths)  # type: ignore[type-var]  # a dataclass
