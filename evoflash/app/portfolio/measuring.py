"""Says what a portfolio asks of the GPU process, and when: kernels checked and timed. Chooses nothing.

A kernel that fails is left out of the table with its reason.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from evoflash import operation as operations
from evoflash.app.portfolio.candidates import BuildResult, Parts
from evoflash.app.portfolio.choice import form_of
from evoflash.app.portfolio.on_gpu import ShapeTask, compute_references, time_libraries, time_shape
from evoflash.app.portfolio.table import WRONG, ShapeTimes
from evoflash.errors import DeviceError
from evoflash.evaluation import Status
from evoflash.gpu import launcher
from evoflash.gpu.process.rungs import GpuTask, task_of
from evoflash.gpu.process.worker import GpuWorker
from evoflash.isolation import Ending, IsolatedPool, raise_if_of_machine
from evoflash.kernels.family import load_family
from evoflash.operation import CompileKey, Workload
from evoflash.specs import GpuSpec

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
