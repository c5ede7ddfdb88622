"""Fills a table with times, and builds a kernel when it is first asked for. Chooses nothing.

A GPU process checks and times kernels while rows are missing; where there is no GPU, the performance model
estimates the times. A kernel that fails is left out of the table with its reason. Every row is written to the
table's file as soon as it is known, so that nothing measured is lost.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from evoflash import operation as operations
from evoflash.app.portfolio.candidates import BuildResult, Parts, adapt_to, build_all
from evoflash.app.portfolio.choice import form_of
from evoflash.app.portfolio.on_gpu import ShapeTask, compute_references, time_libraries, time_shape
from evoflash.app.portfolio.table import WRONG, KernelTime, ShapeTimes, TimeTable, write_table
from evoflash.emulator.preflight import complaint_of, emulate
from evoflash.errors import DeviceError, EvoflashError
from evoflash.evaluation import Basis, Status
from evoflash.evaluators.prepare import estimates
from evoflash.gpu import launcher
from evoflash.gpu.launcher import present_gpu, spec_of
from evoflash.gpu.process.rungs import GpuTask, task_of
from evoflash.gpu.process.worker import GpuWorker
from evoflash.isolation import Ending, IsolatedPool, raise_if_of_machine
from evoflash.kernels import gxx
from evoflash.kernels.family import load_family
from evoflash.kernels.renderer import render
from evoflash.notices import count_of, say, working
from evoflash.problem import Problem
from evoflash.space import Genome
from evoflash.specs import GpuSpec
from evoflash.workload import CompileKey, Workload

_SHAPE_LIMIT_S, _LIBRARY_LIMIT_S, _REFERENCE_LIMIT_S = 180.0, 120.0, 300.0
_MOST_S, _MANY = 1.0, 8  # of one kernel's many turns; kernels that get them
_COMMON_S = 1.5  # a shape's inputs and its few turns, about
_AHEAD = 8  # shapes whose references are kept at a time: gpu/process/cache.py keeps 12


def check_on_gpu(parts: Parts, spec: GpuSpec, seed: int) -> Parts:
    """The parts, those with a reason that fail on a small or odd shape of the ladder."""
    ready = sorted((part for part in parts.values() if not part.reason), key=lambda part: str(part.key))
    checks = {part.key: _checks(part.key) for part in ready}
    every = tuple(workload for each in checks.values() for workload in each)
    with GpuWorker(checks=every, seed=seed) as worker:
        asked = [(part, worker.submit(_task(part, spec, seed, checks=checks[part.key]))) for part in ready]
        outcomes = [(part, future.result()) for part, future in asked]
    failed = {
        (part.genome.id, part.key): replace(
            part, reason=f"{outcome.status} at {outcome.rung}: {outcome.reason}"
        )
        for part, outcome in outcomes
        if outcome.status is not Status.CORRECT
    }
    return {**parts, **failed}


def _checks(key: CompileKey) -> tuple[Workload, ...]:
    return tuple(operations.load(key.operation).check_workloads((key,)))


def _task(
    part: BuildResult,
    spec: GpuSpec,
    seed: int,
    *,
    checks: Sequence[Workload] = (),
    timed: Sequence[Workload] = (),
) -> GpuTask:
    family, genome = load_family(part.genome.family), part.genome
    return task_of(
        genome.id,
        spec,
        (part.build,),
        lambda workload: family.launches(genome, workload, spec),
        checks=checks,
        timed=timed,
        seed=seed,
        is_deterministic=family.is_deterministic,
    )


@dataclass(frozen=True, slots=True)
class Deadline:
    """When measuring should be over, in time.monotonic(); what is left is shared by what is still to come."""

    at_s: float

    def turns_s(self, shapes_left: int) -> float:
        """Seconds for one kernel's many turns on the next shape; 0 where only the few turns fit."""
        share = (self.at_s - time.monotonic()) / max(1, shapes_left) - _COMMON_S
        return max(0.0, min(_MOST_S, share / _MANY))

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self.at_s


class Clock:
    """The GPU process that times shapes; a new one takes its place where a kernel breaks it."""

    def __init__(self, parts: Parts, spec: GpuSpec, seed: int) -> None:
        self._parts, self._spec, self._seed = parts, spec, seed
        self._pool = self._new_pool()
        self._known: tuple[Workload, ...] = ()

    def _new_pool(self) -> IsolatedPool:
        return IsolatedPool(1, initializer=launcher.warm_up)

    def __enter__(self) -> "Clock":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    def expect(self, workloads: Sequence[Workload]) -> None:
        """Have the references of the next shapes computed, where the first of them has none yet."""
        if workloads and workloads[0] not in self._known:
            self._known = tuple(workloads[:_AHEAD])
            threads = len(os.sched_getaffinity(0))
            self._ask(compute_references, self._known, self._seed, threads, limit_s=_REFERENCE_LIMIT_S)

    def row(
        self, workload: Workload, ids: Sequence[str], *, turns_s: float, judges_all: bool = False
    ) -> ShapeTimes:
        """The kernels of these ids on the shape: times, or reasons why there are none."""
        key = workload.compile_key(self._spec.arch)
        mine = [self._parts[name, key] for name in ids]
        absent = {part.genome.id: part.reason for part in mine if part.reason}
        tasks = [_task(p, self._spec, self._seed, timed=(workload,)) for p in mine if not p.reason]
        found = self._time_shape(
            ShapeTask(workload, tuple(tasks), self._spec, self._seed, turns_s, judges_all)
        )
        return replace(found, absent={**absent, **found.absent})

    def _time_shape(self, task: ShapeTask) -> ShapeTimes:
        if not task.tasks:
            return ShapeTimes(task.workload, {})
        ending: Ending[ShapeTimes] = self._ask(time_shape, task, limit_s=_SHAPE_LIMIT_S)
        if ending.value is not None:
            return ending.value
        raise_if_of_machine(ending)
        if len(task.tasks) == 1:
            return ShapeTimes(
                task.workload, {}, {task.tasks[0].genome_id: f"{WRONG}{ending.status}: {ending.reason}"}
            )
        alone = [self._time_shape(replace(task, tasks=(each,), max_s=0.0)) for each in task.tasks]
        absent = {name: reason for row in alone for name, reason in row.absent.items()}
        if not absent:
            raise DeviceError(
                f"{task.workload} cannot be timed on this GPU ({ending.reason}): see nvidia-smi."
            )
        sound = tuple(each for each in task.tasks if each.genome_id not in absent)
        found = self._time_shape(replace(task, tasks=sound))
        return replace(found, absent={**absent, **found.absent})

    def libraries(self, row: ShapeTimes) -> ShapeTimes:
        """The row with PyTorch's times beside its fastest kernel; as it is where there is no PyTorch."""
        if not row.best:
            return row
        part = self._parts[row.best, row.workload.compile_key(self._spec.arch)]
        one = (_task(part, self._spec, self._seed, timed=(row.workload,)),)
        task = ShapeTask(row.workload, one, self._spec, self._seed, 0.0)
        found = self._ask(
            time_libraries, task, form_of(row.workload).libraries, limit_s=_LIBRARY_LIMIT_S
        ).value
        return replace(row, libraries_us=found or {})

    def _ask(self, function: Callable[..., Any], *args: Any, limit_s: float) -> Ending[Any]:
        """The function's own ending, or that of its process, which is then replaced."""
        ending = self._pool.submit(function, *args, timeout_s=limit_s).result()
        inner = ending.value if isinstance(ending.value, Ending) else ending
        if inner.value is None and function is not compute_references:
            self._pool.close()
            self._pool, self._known = self._new_pool(), ()
        return inner


MOST_FLOPS = 1 << 27  # of an emulated call: some seconds of a core


def estimate_row(workload: Workload, ids: Sequence[str], parts: Parts, gpu: GpuSpec) -> ShapeTimes:
    """The kernels of these ids on the shape: estimates in us, or reasons why there are none."""
    key = workload.compile_key(gpu.arch)
    mine = {name: parts[name, key] for name in ids}
    times = {name: _time(part, workload, gpu) for name, part in mine.items() if not part.reason}
    return ShapeTimes(workload, times, {name: part.reason for name, part in mine.items() if part.reason})


def _time(part: BuildResult, workload: Workload, gpu: GpuSpec) -> KernelTime:
    assert part.prepared is not None, "asked of what has no reason only"
    (found,) = estimates(part.genome, part.prepared, Problem((workload,)), gpu)
    return KernelTime(found.total_us, found.total_us, found.total_us, n=0)


def emulated_part(workload: Workload) -> Workload | None:
    """What of the shape the emulator runs; None where that is too much."""
    part: Workload = form_of(workload).part(workload)
    return part if part.flops <= MOST_FLOPS else None


def complaint(part: BuildResult, workload: Workload, gpu: GpuSpec, seed: int) -> str:
    """What the emulator finds wrong with the kernel on that shape; empty where nothing is."""
    family = load_family(part.genome.family)
    library = gxx.build(render(part.genome, part.key, gpu).source, name=family.name)
    launches = family.launches(part.genome, workload, gpu)
    registers = part.build.registers
    emulations, verdict = emulate(
        library,
        launches,
        workload,
        "normal",
        delivery="random",
        schedule="random",
        seed=seed,
        registers=registers,
    )
    return complaint_of(tuple(chain.from_iterable(each.reports for each in emulations)), verdict)


_FILL_SHARE = 0.7  # of the time: for the shapes of the mix; the rest is for the borders
_SETTLED_S = 0.4  # of turns that a kernel gets at least where it is timed once more
_EMULATED_S = 300.0


def _cores() -> int:
    return len(os.sched_getaffinity(0))


class TableBuilder:
    """A table being filled, with what fills it."""

    def __init__(self, table: TimeTable, path: Path, spec: GpuSpec, *, seed: int, minutes: float) -> None:
        """`minutes`: after so many no kernel gets more than the few turns that every one gets."""
        self.table, self.path, self.spec, self._seed = table, path, spec, seed
        now = time.monotonic()
        self._deadline = Deadline(now + 60 * _FILL_SHARE * minutes)
        self._at_borders = Deadline(now + 60 * minutes)
        self._parts: Parts = {}
        self._clock: Clock | None = None
        self._open = ExitStack()

    def __enter__(self) -> "TableBuilder":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def is_estimate(self) -> bool:
        return self.table.basis is not Basis.MEASURED

    @property
    def can_measure(self) -> bool:
        """Whether rows can be added: estimates anywhere, measured ones on their GPU alone."""
        try:
            return self.is_estimate or spec_of(present_gpu()).name == self.table.gpu
        except EvoflashError:
            return False

    def fill(self, workloads: Sequence[Workload]) -> None:
        """Add a row with every kernel for each shape that the table lacks."""
        missing = [workload for workload in workloads if self.table.row(workload) is None]
        if not missing:
            return
        if not self.can_measure:
            raise DeviceError(
                f"{self.path} has no times for {missing[0]} and {len(missing) - 1} others: run this on a "
                f"{self.table.gpu}, or give a file of shapes that it has."
            )
        ids = [genome.id for genome in self.table.kernels]
        self._prepare(ids, workloads)
        for at, workload in enumerate(missing):
            say(f"{at + 1} of {len(missing)}: {workload}")
            row = self._row(workload, ids, missing[at:], turns_s=self._deadline.turns_s(len(missing) - at))
            if self._clock is not None and not self._deadline.is_over:
                row = self._clock.libraries(row)
            self._keep(self.table.with_row(row))

    def add(self, genomes: Sequence[Genome]) -> None:
        """Time more kernels on each shape of the table, in turns with its fastest."""
        workloads = [row.workload for row in self.table.rows]
        keys = Problem(tuple(workloads)).compile_keys(self.spec.arch)
        adapted = (adapt_to(genome, keys, self.spec) for genome in genomes)
        fresh = tuple(dict.fromkeys(x for x in adapted if x is not None and x not in self.table.kernels))
        if not fresh:
            return
        self._keep(replace(self.table, kernels=(*self.table.kernels, *fresh)))
        ids = [genome.id for genome in fresh]
        self._prepare([*ids, *(row.best for row in self.table.rows)], workloads)
        for at, before in enumerate(self.table.rows):
            row, left = before, workloads[at:]
            say(f"{at + 1} of {len(workloads)}, {count_of(len(fresh), 'kernel')} more: {row.workload}")
            beside = [*ids, *filter(None, [row.best])]
            found = self._row(row.workload, beside, left, turns_s=self._deadline.turns_s(len(left)))
            for each in ids:
                row = row.with_retiming(each, found)
            self._keep(self.table.with_row(row))

    def look_at_borders(self, workloads: Sequence[Workload], ids: Sequence[str]) -> None:
        """Add a row with these kernels for each shape that has none, where that can be measured."""
        missing = [workload for workload in workloads if self.table.border(workload, ids) is None]
        if not missing or not self.can_measure:
            return
        self._prepare(ids, workloads)
        for at, workload in enumerate(missing):
            say(f"border {at + 1} of {len(missing)}: {workload}")
            turns_s = self._at_borders.turns_s(len(missing) - at)
            row = self._row(workload, ids, missing[at:], turns_s=turns_s, judges_all=True)
            self._keep(self.table.with_border(row))

    def settle(self, workload: Workload, genome_id: str) -> None:
        """Time a kernel once more in turns with the fastest of the row, and judge its output there."""
        row = self.table.row(workload)
        assert row is not None, "what is settled has a time"
        ids = list(dict.fromkeys((genome_id, row.best)))
        self._prepare(ids, [workload])
        say(f"once more: {genome_id} on {workload}")
        if self._clock is not None:
            self._clock.expect([workload])
            turns_s = max(_SETTLED_S, self._deadline.turns_s(1))
            found = self._clock.row(workload, ids, turns_s=turns_s)
            self._keep(self.table.with_row(row.with_retiming(genome_id, found)))

    def emulate(self, served: Mapping[Workload, str]) -> None:
        """Run the kernel of each border shape in the emulator, where that is not too much for it."""
        pairs = {
            shape: emulated_part(shape) for shape, name in served.items() if not self._is_checked(shape, name)
        }
        small = {shape: part for shape, part in pairs.items() if part is not None}
        if not small or not self.is_estimate:
            return
        self._prepare(list(served.values()), list(small))
        with working(f"emulating {len(small)} shapes beside borders"), IsolatedPool(_cores()) as pool:
            asked = {
                shape: pool.submit(
                    complaint, self._part(shape, served[shape]), part, *self._how, timeout_s=_EMULATED_S
                )
                for shape, part in small.items()
            }
            ended = {shape: future.result() for shape, future in asked.items()}
        for shape, ending in ended.items():
            why = ending.value if ending.value is not None else f"{ending.status}: {ending.reason}"
            self._keep(self.table.with_verdict(shape, served[shape], why))

    @property
    def _how(self) -> tuple[GpuSpec, int]:
        return self.spec, self._seed

    def _part(self, workload: Workload, genome_id: str) -> BuildResult:
        return self._parts[genome_id, workload.compile_key(self.spec.arch)]

    def _is_checked(self, workload: Workload, genome_id: str) -> bool:
        row = self.table.border(workload, [genome_id])
        return row is not None and genome_id in row.times and row.times[genome_id].is_checked

    def strike(self, genome_id: str, reason: str) -> None:
        """Leave a kernel out of the table that was found to be wrong."""
        say(f"{genome_id} is left out: {reason}")
        self._keep(self.table.without(genome_id, reason))

    def _row(
        self,
        workload: Workload,
        ids: Sequence[str],
        left: Sequence[Workload],
        *,
        turns_s: float,
        judges_all: bool = False,
    ) -> ShapeTimes:
        if self._clock is None:
            return estimate_row(workload, ids, self._parts, self.spec)
        self._clock.expect(left)
        return self._clock.row(workload, ids, turns_s=turns_s, judges_all=judges_all)

    def _prepare(self, ids: Sequence[str], workloads: Sequence[Workload]) -> None:
        """Have these kernels ready under the compile keys of the shapes; on a GPU they are checked there."""
        keys = {workload.compile_key(self.spec.arch) for workload in workloads}
        wanted = [
            g for g in self.table.kernels if g.id in ids and any((g.id, k) not in self._parts for k in keys)
        ]
        if wanted:
            doing = "compiling and emulating" if self.is_estimate else "compiling"
            with working(f"{doing} {len(wanted)} kernels for {len(keys)} kinds of shapes"):
                parts = build_all(wanted, workloads, self.spec, emulate=self.is_estimate, seed=self._seed)
            if not self.is_estimate:
                with working("checking them on small and odd shapes"):
                    parts = check_on_gpu(parts, self.spec, self._seed)
            self._parts = {**self._parts, **parts}
        if not self.is_estimate and (wanted or self._clock is None):
            self._open.close()
            self._clock = self._open.enter_context(Clock(self._parts, self.spec, self._seed))

    def _keep(self, table: TimeTable) -> None:
        self.table = table
        write_table(self.path, table)
