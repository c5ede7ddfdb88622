"""Says what regret few kernels have over 1 to 64 rows of a linear layer, from two records. Measures nothing.

    python -m scripts.portfolio.regret_of_rows

One record has 13 and 12 kernels at every number of rows, some of which are of another class today; the other
has four kernels of each layer at some numbers of rows, compiled for more classes than there are. A number of
rows is taken from the first where it is compiled for as many as it was then, else from the second, where the
other kernels count as no kernel. Regrets are ratios inside a run, so that those of two runs can be joined.
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evoflash.app.portfolio.choice import Choice, Regrets, choose, evaluate, regrets
from evoflash.operations.linear.workload import ROW_CLASSES
from scripts import ROOT
from scripts.portfolio.row_classes import RECORD
from scripts.records import read_record

LATER = ROOT / "scripts/portfolio/records/row-classes-h100-2026-11-27.json"
_CLASSES_THEN = (1, 2, 4, 8, 16, 32, 64)  # when RECORD was made


@dataclass(frozen=True, slots=True)
class JoinedTable:
    """Regrets (rows, kernels) of a layer, inf where nothing is known. Those numbers of rows of a class that
    were timed count for all of it.
    """

    kernels: tuple[str, ...]  # beginnings of ids
    rows: tuple[int, ...]
    regret: Regrets
    weights: tuple[float, ...]


def class_of(m: int, classes: Sequence[int] = ROW_CLASSES) -> int:
    """Rows that a kernel for m rows is compiled for."""
    return next(most for most in classes if most >= m)


def join_records(layer: str) -> JoinedTable:
    """Of both records, those times that a kernel has as it is compiled today."""
    first = read_record(RECORD)["layers"][layer]
    times: dict[int, Mapping[str, float]] = {
        int(m): {name[:6]: us for name, us in row.items()}
        for m, row in first["us"].items()
        if class_of(int(m)) == class_of(int(m), _CLASSES_THEN)
    }
    for m, row in read_record(LATER)["us"][layer].items():
        ending = f"<={class_of(int(m))}"
        found = {name.removesuffix(ending): us for name, us in row.items() if name.endswith(ending)}
        times.setdefault(int(m), found)
    kernels, rows = tuple(each["id"][:6] for each in first["kernels"]), tuple(sorted(times))
    table = np.array([[times[m].get(name, np.inf) for name in kernels] for m in rows])
    there = Counter(map(class_of, range(1, ROW_CLASSES[-1] + 1)))
    timed = Counter(map(class_of, rows))
    weights = tuple(there[class_of(m)] / timed[class_of(m)] for m in rows)
    return JoinedTable(kernels, rows, regrets(table), weights)


def least_worst(table: JoinedTable, most: int) -> Choice:
    """The set of so many kernels whose worst regret is least, then the mean."""
    shares, columns = np.asarray(table.weights), range(len(table.kernels))
    sets = (evaluate(table.regret, shares, each) for each in itertools.combinations(columns, most))
    return min(sets, key=lambda found: (found.uncovered, found.worst, found.mean))


def main() -> None:
    """Print for each layer and number of kernels what a portfolio chooses, and the least worst regret."""
    for layer in read_record(RECORD)["layers"]:
        table = join_records(layer)
        print(layer, len(table.rows), "rows")
        for most in (1, 2, 3, 4):
            for how, found in (
                ("by the mean", choose(table.regret, table.weights, most)),
                ("by the worst", least_worst(table, most)),
            ):
                worst = table.regret[:, found.kernels].min(axis=1)
                names = " ".join(table.kernels[at] for at in found.kernels)
                print(
                    f"{most} kernels {how}: mean {found.mean:.2%}, worst {found.worst:.2%} at "
                    f"m={table.rows[int(worst.argmax())]}, {names}"
                )


if __name__ == "__main__":
    main()
