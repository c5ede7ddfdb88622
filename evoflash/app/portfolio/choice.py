"""Chooses at most k kernels of a table, with the least regret over a mix of shapes. Measures nothing.

The regret of a set on a shape is the time of its fastest kernel there over that of the fastest kernel of all,
less 1. Its mean is weighted by the mix. A ratio and no logarithm: where a weight is a share of the attention
time of a service, the mean is exactly how much longer the service computes. Small tables are searched
exactly, large ones greedily with exchanges.

The rule by which a dispatcher tells shapes apart is made here too, and the shapes at its borders.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.operation import DispatchForm, operation_of
from evoflash.runtime.dispatch import VERSION, Dispatcher, corner
from evoflash.workload import Workload

_EXACT = 60_000  # sets of k - 1 kernels: each is completed by all kernels at once, in some 20 us
_EQUAL = 1e-12  # differences of regrets that come from the order of sums
# Means of sets that are no further apart are equal: the times themselves are known to a few thousandths.
AS_GOOD = 0.002

Regrets = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Choice:
    """Columns of the kernels that are kept, ascending, and what they cost.

    `uncovered` is the weight of the shapes that none of them computes though another kernel of the table
    does; mean and worst are over the other shapes.
    """

    kernels: tuple[int, ...]
    mean: float
    worst: float
    uncovered: float
    is_exact: bool  # whether it is known that no other set is better

    def rank(self, good: float = 0.0) -> tuple[float, ...]:
        """Less is better: shapes left out, mean regret as far as it is above `good`, worst regret, the mean
        itself, kernels; then the table's order.
        """
        parts = (self.uncovered, max(self.mean, good), self.worst, self.mean)
        return (*(round(x, 12) for x in parts), len(self.kernels), *self.kernels)


def regrets(times_us: Regrets) -> Regrets:
    """Of a table (shapes, kernels) of times in us, inf where a kernel has none: the ratio to the fastest of
    the shape, less 1. A row without any time stays inf.
    """
    best = times_us.min(axis=1, keepdims=True)
    return np.where(np.isfinite(times_us), times_us / np.where(np.isfinite(best), best, 1.0) - 1.0, np.inf)


def evaluate(regret: Regrets, weights: Regrets, kernels: Sequence[int], *, is_exact: bool = True) -> Choice:
    """What a set of columns costs. Shapes that no column of the whole table computes count nowhere."""
    possible = np.isfinite(regret).any(axis=1)
    best = regret[:, list(kernels)].min(axis=1, initial=np.inf)
    served = possible & np.isfinite(best)
    whole = float(weights[served].sum())
    mean = float((weights[served] * best[served]).sum() / whole) if whole else 0.0
    worst = float(best[served].max(initial=0.0))
    uncovered = float(weights[possible & ~served].sum())
    return Choice(tuple(sorted(kernels)), mean, worst, uncovered, is_exact)


def choose(regret: Regrets, weights: Sequence[float], most: int) -> Choice:
    """At most `most` columns of a table (shapes, kernels) of regrets, inf where a kernel computes nothing.

    First as little as possible is left uncovered, then the weighted mean regret is least; of all sets that
    are as good by that the worst regret is least, then the mean itself and the number of kernels.
    """
    shares = np.asarray(weights, float)
    columns = _undominated_columns(regret)
    if not columns:
        return evaluate(regret, shares, ())
    most = min(most, len(columns))
    is_exact = math.comb(len(columns), most - 1) <= _EXACT
    search = _exact if is_exact else _local_search
    least = evaluate(regret, shares, search(regret, shares, columns, most, good=0.0))
    found = search(regret, shares, columns, most, good=least.mean + AS_GOOD)
    return evaluate(regret, shares, found, is_exact=is_exact)


def _undominated_columns(regret: Regrets) -> list[int]:
    """Columns that are not everywhere at least as slow as another one: some best set has only these."""
    count = regret.shape[1]
    return [
        column
        for column in range(count)
        if np.isfinite(regret[:, column]).any()
        and not any(_dominates(regret, other, column) for other in range(count) if other != column)
    ]


def _dominates(regret: Regrets, column: int, other: int) -> bool:
    """Whether a column is nowhere slower than another one; of equals the first."""
    mine, theirs = regret[:, column], regret[:, other]
    return bool((mine <= theirs).all()) and (bool((mine < theirs).any()) or column < other)


def _exact(
    regret: Regrets, weights: Regrets, columns: Sequence[int], most: int, *, good: float
) -> tuple[int, ...]:
    """The best of all sets of at most `most` columns; a smaller set is completed by all columns at once."""
    possible = np.isfinite(regret).any(axis=1)
    table, shares = regret[possible][:, list(columns)].T, weights[possible]
    best: Choice | None = None
    for size in range(most):
        for begun in itertools.combinations(range(len(columns)), size):
            start = table[list(begun)].min(axis=0, initial=np.inf)
            last = _best_completion(np.minimum(start, table), shares, good)
            for end in last:
                kernels = tuple(dict.fromkeys(columns[at] for at in (*begun, end)))
                found = evaluate(regret, weights, kernels)
                best = found if best is None or found.rank(good) < best.rank(good) else best
    assert best is not None, "there are columns, and at least one is allowed"
    return best.kernels


def _best_completion(reached: Regrets, weights: Regrets, good: float) -> list[int]:
    """Of sets (sets, shapes) of regrets those that are best by what is uncovered, by the mean as far as it is
    above `good`, and by the worst.
    """
    is_served = np.isfinite(reached)
    uncovered = (weights * ~is_served).sum(axis=1)
    fewest = np.flatnonzero(uncovered <= uncovered.min() + _EQUAL)
    kept, served = reached[fewest], is_served[fewest]
    whole = (weights * served).sum(axis=1)
    kept = np.where(served, kept, 0.0)
    mean = np.maximum((weights * kept).sum(axis=1) / np.where(whole > 0, whole, 1.0), good)
    least = mean <= mean.min() + _EQUAL
    worst = kept[least].max(axis=1, initial=0.0)
    return [int(at) for at in fewest[least][worst <= worst.min() + _EQUAL]]


def _local_search(
    regret: Regrets, weights: Regrets, columns: Sequence[int], most: int, *, good: float
) -> tuple[int, ...]:
    """One column after the other, greedily; exchanges, additions and removals until none of them helps."""
    best = evaluate(regret, weights, ())
    while True:
        chosen = best.kernels
        others = [column for column in columns if column not in chosen]
        near = [tuple(c for c in chosen if c != out) for out in chosen]
        near += [(*less, column) for less in near for column in others]
        near += [(*chosen, column) for column in others] if len(chosen) < most else []
        costs = (evaluate(regret, weights, each) for each in near if each)
        found = min(costs, key=lambda c: c.rank(good), default=best)
        if best.kernels and found.rank(good) >= best.rank(good):
            return best.kernels
        best = found


REACH = 2.0  # octaves: a shape four times as long as any that was timed is not known to be fast
_STEPS = 256  # on the way from one point to its neighbour

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
        keys.setdefault(key_of(workload, arch), []).append([*form_of(workload).sizes(workload), kernel])
    names = form_of(next(iter(assigned))).names if assigned else ()
    tables = [{**dict(zip(names, key, strict=True)), "points": points} for key, points in keys.items()]
    return {"version": VERSION, "reach": REACH, "keys": tables}


def form_of(workload: Workload) -> DispatchForm:
    """How shapes of its operation are told apart."""
    form = operation_of(workload).portfolio
    assert form is not None, "app/shape_files.py refuses the others"
    return form


def key_of(workload: Workload, arch: str) -> tuple[Any, ...]:
    """What a kernel is compiled for, as a dispatcher tells it."""
    names = workload.compile_key(arch).names()
    return tuple(names[name] for name in form_of(workload).names)


def ask_dispatcher(dispatcher: Dispatcher, workload: Workload, arch: str) -> int:
    """The kernel that the dispatcher gives a workload."""
    return form_of(workload).ask(dispatcher, key_of(workload, arch), workload)


def bucket(workload: Workload, arch: str) -> tuple[Any, ...]:
    """Shapes of one bucket get one kernel."""
    return *key_of(workload, arch), corner(form_of(workload).sizes(workload))


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
            radius = _squared_distance(place(first), middle)
            others = (
                x for x in points if x not in (first, second) and key_of(x, arch) == key_of(first, arch)
            )
            if all(_squared_distance(place(other), middle) >= radius for other in others):
                yield first, second


def place(workload: Workload) -> tuple[float, ...]:
    """Where a shape lies, in octaves: by the sizes that its bucket is of."""
    return tuple(math.log2(size) for size in form_of(workload).sizes(workload))


def _squared_distance(a: Sequence[float], b: Sequence[float]) -> float:
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def _changes(first: Workload, second: Workload, dispatcher: Dispatcher, arch: str) -> Iterator[Border]:
    """Each pair of successive shapes on the way from one to the other that get different kernels."""
    before, kernel = first, ask_dispatcher(dispatcher, first, arch)
    for step in range(1, _STEPS + 1):
        here = form_of(first).between(first, second, step / _STEPS)
        given = ask_dispatcher(dispatcher, here, arch)
        if given != kernel:
            yield Border(before, here, (kernel, given))
        before, kernel = here, given
