"""What a GPU process keeps between candidates: test inputs with their references, memory, benches.

Checks and times nothing.
"""

from functools import lru_cache

import numpy as np

from evoflash.cuda.arena import Arena, Original, keep_on_device
from evoflash.gpu import GpuSpec
from evoflash.operation import Expected, TestInput, Workload
from evoflash.operations import operation_of
from evoflash.timing.benchmark import Bench
from evoflash.validation.correctness import case


def precompute_references(checks: tuple[Workload, ...], timed: tuple[Workload, ...], seed: int) -> None:
    """Compute what candidates are compared with beforehand: the process is then as quick as a used one."""
    for workload in checks:
        for name in operation_of(workload).inputs.small:
            case(workload, name, seed)
    for workload in timed:
        names = operation_of(workload).inputs
        for name in (*names.at_size, names.after_timing):
            large(workload, name, seed)


# A large test input is up to 400 MB of host memory: few are kept.
@lru_cache(maxsize=12)
def large(workload: Workload, name: str, seed: int) -> tuple[TestInput, Expected]:
    """A timed workload's test input, and what is right at a sample of rows."""
    operation = operation_of(workload)
    drawn: TestInput = operation.draw(name, workload, seed=seed)
    where = operation.sample(workload, np.random.default_rng([seed, len(name)]))
    return drawn, operation.expect(workload, drawn, where=where)


@lru_cache(maxsize=12)
def inputs(workload: Workload, name: str, seed: int) -> TestInput | Original:
    """A large test input, on the device where there is room. Make the workload's arena first."""
    return keep_on_device(large(workload, name, seed)[0])


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
    """Guarded device memory for a workload."""
    return Arena(workload, rng=np.random.default_rng())


@lru_cache(maxsize=4)
def bench(workload: Workload, spec: GpuSpec, seed: int) -> Bench:
    """The input sets that a workload is timed on."""
    made = Bench(workload, spec=spec, seed=seed)
    for each in made.arenas:
        if each.inputs is not None and not isinstance(each.inputs, Original):
            each.load(keep_on_device(each.inputs))
    return made
