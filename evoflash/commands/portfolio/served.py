"""What users of a portfolio get on a shape, and what that costs beside the best there is. Measures nothing.

The dispatcher itself is asked, so that what is reported here is what an exported package does.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from evoflash.commands.portfolio import rule
from evoflash.commands.portfolio.run import Portfolio
from evoflash.commands.portfolio.table import KernelTime, Row
from evoflash.operation import Workload
from evoflash.runtime.dispatch import FALLBACK, Dispatcher


@dataclass(frozen=True, slots=True)
class Served:
    """One shape of the mix. Without a kernel it falls back to PyTorch's attention."""

    workload: Workload
    weight: float
    kernel: str  # genome id; empty: the fallback
    time: KernelTime | None
    best: str  # the fastest kernel of the table
    best_us: float | None
    libraries_us: dict[str, float]

    @property
    def regret(self) -> float | None:
        """The ratio of times to the best of the table, less 1; None for the fallback."""
        return self.time.us / self.best_us - 1 if self.time and self.best_us else None

    @property
    def library_us(self) -> float | None:
        """PyTorch's faster backend."""
        return min(self.libraries_us.values(), default=None)


@dataclass(frozen=True, slots=True)
class AtBorder:
    """A shape next to a border: what it gets, and the fastest of the kept kernels there."""

    workload: Workload
    kernel: str
    time: KernelTime | None
    best: str
    best_us: float | None

    @property
    def is_timed(self) -> bool:
        return self.time is not None

    @property
    def regret(self) -> float:
        return self.time.us / self.best_us - 1 if self.time and self.best_us else 0.0


def served(found: Portfolio) -> tuple[Served, ...]:
    """In the order of the mix."""
    dispatcher = Dispatcher(found.rule)
    rows = []
    for shape in found.mix:
        row = found.table.row(shape.workload) or Row(shape.workload, {})
        kernel = _given(dispatcher, found, shape.workload)
        best_us = row.times[row.best].us if row.best else None
        known = (shape.workload, shape.weight, kernel, row.times.get(kernel))
        rows.append(Served(*known, row.best, best_us, dict(row.libraries_us)))
    return tuple(rows)


def at_borders(found: Portfolio) -> tuple[AtBorder, ...]:
    """Both shapes of each border that get a kernel, each once."""
    dispatcher = Dispatcher(found.rule)
    shapes = dict.fromkeys(shape for border in found.borders for shape in (border.first, border.second))
    rows = (_at_border(dispatcher, found, shape) for shape in shapes)
    return tuple(row for row in rows if row.kernel)


def _at_border(dispatcher: Dispatcher, found: Portfolio, workload: Workload) -> AtBorder:
    row = found.table.border(workload, found.kernels) or Row(workload, {})
    kernel = _given(dispatcher, found, workload)
    kept = {name: row.times[name].us for name in found.kernels if name in row.times}
    best = min(kept, key=lambda name: kept[name], default="")
    return AtBorder(workload, kernel, row.times.get(kernel), best, kept.get(best))


def _given(dispatcher: Dispatcher, found: Portfolio, workload: Workload) -> str:
    number = rule.ask(dispatcher, workload, found.spec.arch)
    return "" if number == FALLBACK else found.kernels[number]


@dataclass(frozen=True, slots=True)
class Regret:
    """Over the shapes that get a kernel: the mean by weight, the mean of all alike, and the worst."""

    mean: float = 0.0
    plain_mean: float = 0.0
    worst: float = 0.0


def regret(rows: Sequence[Served]) -> Regret:
    costs = [(row.weight, row.regret) for row in rows if row.regret is not None]
    if not costs:
        return Regret()
    mean = sum(weight * cost for weight, cost in costs) / sum(weight for weight, _ in costs)
    return Regret(mean, sum(cost for _, cost in costs) / len(costs), max(cost for _, cost in costs))
