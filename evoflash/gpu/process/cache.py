"""What a GPU process keeps between candidates: plans of checks, memory with inputs on it, benches.

Checks and times nothing.
"""

from functools import lru_cache
from operator import itemgetter

import numpy as np

from evoflash.gpu.arena import Arena, Original, keep_on_device
from evoflash.gpu.launcher import beside_others
from evoflash.gpu.memory import has_room, step_of_check
from evoflash.gpu.process.check_batch import CheckBatch, bytes_on_device, can_hold
from evoflash.gpu.process.right_answers import has_device_reference
from evoflash.gpu.timing.benchmark import Bench
from evoflash.operation import operation_of
from evoflash.specs import GpuSpec
from evoflash.validation.cases import large_case, names_of_large
from evoflash.validation.plan import CheckPlan, plan_of, size_plan_of
from evoflash.workload import TestInput, Workload

_BATCH_BYTES = 8 << 30  # of slabs, their images and references
_SIZE_BYTES = 8 << 30  # of the tensors of all launches at the benchmark's shape
_REARRANGED = 0x5245  # a random stream of its own


def precompute_references(checks: tuple[Workload, ...], timed: tuple[Workload, ...], seed: int) -> None:
    """Compute what candidates are compared with beforehand: the process is then as quick as a used one."""
    for workload in checks:
        plan(workload, seed)
    for workload in timed:
        for name in names_of_large(workload):
            large_case(workload, name, seed)


@lru_cache(maxsize=64)
def plan(workload: Workload, seed: int) -> CheckPlan:
    """The launches that check a kernel on a small workload."""
    return plan_of(workload, seed)


@lru_cache(maxsize=2)  # a search's, and that of a finalist's hidden shapes
def check_batch(workloads: tuple[Workload, ...], seed: int) -> tuple[CheckBatch | None, tuple[Workload, ...]]:
    """The checks on these workloads as one batch, and those that it has no memory for: the largest, and those
    whose rows the device cannot compare.
    """
    plans = {workload: plan(workload, seed) for workload in workloads}
    within, size_bytes = set[Workload](), 0
    for workload, size in sorted(((w, bytes_on_device(plans[w])) for w in plans), key=itemgetter(1)):
        fits = size_bytes + size <= _BATCH_BYTES and has_room(size_bytes + size)
        if fits and can_hold(plans[workload]):
            within.add(workload)
            size_bytes += size
    alone = tuple(workload for workload in workloads if workload not in within)
    if not within:
        return None, alone
    with beside_others():
        return CheckBatch([plans[workload] for workload in workloads if workload in within]), alone


@lru_cache(maxsize=4)
def size_batch(workload: Workload, seed: int) -> CheckBatch | None:
    """The checks at the benchmark's shape, where the device computes what is right; None where it cannot, or
    has too little memory to spare.
    """
    if not has_device_reference(workload):
        return None
    names = operation_of(workload).inputs.at_size
    if (len(names) + 2) * sum(s.size_bytes for s in operation_of(workload).tensors(workload)) > _SIZE_BYTES:
        return None
    cases = [large_case(workload, name, seed) for name in names]
    plan = size_plan_of(workload, cases, np.random.default_rng([seed, _REARRANGED]))
    if not can_hold(plan) or not has_room(bytes_on_device(plan)):
        return None
    with beside_others():
        return CheckBatch([plan])


@lru_cache(maxsize=12)
def inputs(workload: Workload, name: str, seed: int) -> TestInput | Original:
    """A large test input, on the device where there is room. Make the workload's arena first."""
    drawn, _ = large_case(workload, name, seed)
    with beside_others():
        return keep_on_device(drawn)


def verify_inputs(workload: Workload, names: tuple[str, ...], seed: int) -> None:
    """Raises MemoryFaultError when a kernel wrote into what is kept of these test inputs on the device.

    For when an output was wrong: copies that a kernel before it spoilt would fail every kernel from now on.
    """
    for name in names:
        kept = inputs(workload, name, seed)
        if isinstance(kept, Original):
            kept.verify()


@lru_cache(maxsize=64)
def arena(workload: Workload) -> Arena:
    with beside_others():
        return _checked_arena(workload)


def strided_arena(workload: Workload) -> Arena:
    """Memory whose tensors are not dense; made anew each time, because few kernels are asked one by one."""
    with beside_others():
        return _checked_arena(workload, is_strided=True)


def _checked_arena(workload: Workload, *, is_strided: bool = False) -> Arena:
    rng = np.random.default_rng()
    return Arena(workload, rng=rng, step=step_of_check(rng), is_strided=is_strided)


@lru_cache(maxsize=4)
def bench(workload: Workload, spec: GpuSpec, seed: int) -> Bench:
    """The input sets that a workload is timed on."""
    with beside_others():  # gigabytes of copies: a kernel timed meanwhile would look twice as slow
        made = Bench(workload, spec=spec, seed=seed)
        for each in made.arenas:
            if each.inputs is not None and not isinstance(each.inputs, Original):
                each.load(keep_on_device(each.inputs))
    return made
