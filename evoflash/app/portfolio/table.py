"""How long each kernel takes on each shape of a mix, and the JSON file that keeps it. Measures nothing.

Choosing again, for other weights or another number of kernels, needs the table alone.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.app.portfolio.choice import Regrets
from evoflash.errors import UsageError
from evoflash.evaluation import Basis
from evoflash.problem import parse_workload
from evoflash.space import Genome
from evoflash.workload import Workload
from evoflash.written_files import replacing, write_text

_FORMAT, _VERSION = "evoflash portfolio table", 1
WRONG = "wrong: "  # so begins the reason of a kernel that failed at a shape, and not merely cannot run there


@dataclass(frozen=True, slots=True)
class KernelTime:
    """A kernel's time on a shape, in us a call; the ends of its interval where it was timed in many turns.

    `is_rough`: from a few turns only, because it was far from the fastest. `is_checked`: its output at this
    very shape was judged after it was timed, and was right.
    """

    us: float
    low_us: float
    high_us: float
    n: int
    is_rough: bool = False
    is_checked: bool = False


@dataclass(frozen=True, slots=True)
class ShapeTimes:
    """One shape: times by genome id, and why other kernels have none.

    `libraries_us`: PyTorch's attention in turns with the fastest kernel, by backend.
    """

    workload: Workload
    times: Mapping[str, KernelTime]
    absent: Mapping[str, str] = field(default_factory=dict)
    libraries_us: Mapping[str, float] = field(default_factory=dict)

    @property
    def best(self) -> str:
        """The id of the fastest kernel; empty where none has a time."""
        return min(self.times, key=lambda each: self.times[each].us, default="")

    def without(self, genome_id: str, reason: str) -> "ShapeTimes":
        """The row in which this kernel has no time, for that reason."""
        others = {name: time for name, time in self.times.items() if name != genome_id}
        return replace(self, times=others, absent={**self.absent, genome_id: reason})

    def with_retiming(self, genome_id: str, found: "ShapeTimes") -> "ShapeTimes":
        """The row once this kernel was timed again in turns with the row's fastest: the ratio to that one is
        the new one. A kernel whose output was wrong there has no time any more.
        """
        if genome_id not in found.times:
            return self.without(genome_id, found.absent.get(genome_id, "it could not be timed"))
        new, by = found.times[genome_id], 1.0
        if self.best in found.times and self.best != genome_id:
            by = self.times[self.best].us / found.times[self.best].us
        us, low_us, high_us = (by * each for each in (new.us, new.low_us, new.high_us))
        time = KernelTime(us, low_us, high_us, new.n, is_checked=new.is_checked)
        return replace(self, times={**self.times, genome_id: time})


@dataclass(frozen=True, slots=True)
class TimeTable:
    """Rows of one GPU and one session or several, and the kernels that they name.

    `borders`: shapes where a dispatcher changed its mind, timed with the kernels kept then and no others.
    """

    gpu: str
    basis: Basis  # measured, or estimated by the performance model
    kernels: tuple[Genome, ...]
    rows: tuple[ShapeTimes, ...] = ()
    borders: tuple[ShapeTimes, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)  # device, driver, versions, date

    def row(self, workload: Workload) -> ShapeTimes | None:
        return next((row for row in self.rows if row.workload == workload), None)

    def kernel(self, genome_id: str) -> Genome:
        return next(genome for genome in self.kernels if genome.id == genome_id)

    def with_row(self, row: ShapeTimes) -> "TimeTable":
        """The table with this row, in the place of an older one of the same shape."""
        others = tuple(each for each in self.rows if each.workload != row.workload)
        return replace(self, rows=(*others, row))

    def with_border(self, row: ShapeTimes) -> "TimeTable":
        """The same for a shape at a border."""
        others = tuple(each for each in self.borders if each.workload != row.workload)
        return replace(self, borders=(*others, row))

    def without(self, genome_id: str, reason: str) -> "TimeTable":
        """The table in which this kernel has no time on any shape, for that reason."""
        rows, borders = (
            tuple(row.without(genome_id, reason) for row in each) for each in (self.rows, self.borders)
        )
        return replace(self, rows=rows, borders=borders)

    def with_verdict(self, workload: Workload, genome_id: str, complaint: str) -> "TimeTable":
        """The table once the kernel's output at a border shape was looked at; an empty complaint is none."""
        beside = next((row for row in self.borders if row.workload == workload), None)
        keep, row = (self.with_border, beside) if beside else (self.with_row, self.row(workload))
        assert row is not None, "what is judged has a time"
        if complaint:
            return keep(row.without(genome_id, f"{WRONG}{complaint}"))
        sure = replace(row.times[genome_id], is_checked=True)
        return keep(replace(row, times={**row.times, genome_id: sure}))

    def border(self, workload: Workload, ids: Sequence[str]) -> ShapeTimes | None:
        """The row of a border shape, or of the mix, that says something of each of these kernels."""
        rows = (row for row in (*self.borders, *self.rows) if row.workload == workload)
        return next((row for row in rows if set(ids) <= {*row.times, *row.absent}), None)

    def times_us(self, workloads: Sequence[Workload]) -> Regrets:
        """(workloads, kernels) in us, inf where a kernel has no time."""
        ids = [genome.id for genome in self.kernels]
        found = [self.row(workload) for workload in workloads]
        times = [row.times if row else {} for row in found]
        return np.array(
            [[each[name].us if name in each else np.inf for name in ids] for each in times], float
        ).reshape(len(workloads), len(ids))


def read_table(path: Path) -> TimeTable:
    """The table in a file that write_table() wrote. UsageError for any other file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if (found["format"], found["version"]) != (_FORMAT, _VERSION):
            raise ValueError(f"it is of version {found['version']}, this evoflash reads {_VERSION}")
        return TimeTable(
            gpu=found["gpu"],
            basis=Basis(found["basis"]),
            kernels=tuple(_genome(each) for each in found["kernels"]),
            rows=tuple(_row(each) for each in found["shapes"]),
            borders=tuple(_row(each) for each in found["borders"]),
            environment=dict(found["environment"]),
        )
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}): give another --table.") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(
            f"{path} is no table of `evoflash portfolio` ({type(error).__name__}: {error}): "
            "give another --table."
        ) from None


def write_table(path: Path, table: TimeTable) -> None:
    """Whole or not at all. UsageError where the path cannot be written.

    A table that is there was read, and is in the new one.
    """
    with replacing():
        write_text(path, as_json(table) + "\n")


def as_json(table: TimeTable) -> str:
    """The file's text: genomes with all values, times in us."""
    kernels = [
        {"id": each.id, "family": each.family, "version": each.version, "values": each.as_dict()}
        for each in table.kernels
    ]
    head = {"format": _FORMAT, "version": _VERSION, "gpu": table.gpu, "basis": table.basis.value}
    rows = {"shapes": table.rows, "borders": table.borders}
    shapes = {name: [_shape(row) for row in each] for name, each in rows.items()}
    return json.dumps(
        {**head, "environment": dict(table.environment), "kernels": kernels, **shapes}, indent=1
    )


def _shape(row: ShapeTimes) -> dict[str, Any]:
    return {
        "problem": str(row.workload),
        "times": {name: asdict(time) for name, time in row.times.items()},
        "absent": dict(row.absent),
        "libraries_us": dict(row.libraries_us),
    }


def _row(found: Mapping[str, Any]) -> ShapeTimes:
    times = {name: KernelTime(**time) for name, time in found["times"].items()}
    if not all(np.isfinite(time.us) and time.us > 0 for time in times.values()):
        raise ValueError(f"a time on {found['problem']} is no positive number")
    return ShapeTimes(
        parse_workload(found["problem"]), times, dict(found["absent"]), dict(found["libraries_us"])
    )


def _genome(found: Mapping[str, Any]) -> Genome:
    genome = Genome(found["family"], found["version"], tuple(sorted(found["values"].items())))
    if genome.id != found["id"]:
        raise ValueError(f"the values of kernel {found['id']} give {genome.id}")
    return genome
