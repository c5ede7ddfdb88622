"""How a genome's launches fill a GPU: numbers known before anything is compiled. Estimates no time."""

import math
from functools import lru_cache

from evoflash.evaluation import Launch
from evoflash.families.family import Family
from evoflash.gpu import GpuSpec
from evoflash.operation import Loop, Workload
from evoflash.operation.registry import operation_of
from evoflash.perf_model.block_schedule import at_work, makespan
from evoflash.perf_model.estimate import occupancy
from evoflash.problem import Problem
from evoflash.space import Genome, Proportions

NAMES = (  # all but the last in powers of two
    "products",  # of a row and an item, that the busiest SM computes
    "products_of_a_warp",
    "warps",  # on that SM
    "steps",  # that it takes one after the other
    "rows",  # of a CTA
    "items",  # of a step
    "shared_bytes",  # on that SM
    "launches",
)


def proportions_on(problem: Problem, family: Family, gpu: GpuSpec) -> Proportions:
    """The proportions of the family's valid genomes, means over the problem's workloads."""
    keys = [workload.compile_key(gpu.arch) for workload in problem.workloads]

    def of(genome: Genome) -> tuple[float, ...]:
        each = []
        for workload, key in zip(problem.workloads, keys, strict=True):
            names = family.names(genome.as_dict(), key, gpu)
            launches = family.launches_of(names, workload)
            each.append(_proportions(launches, family.loop(names), workload, gpu))
        return tuple(sum(column) / len(column) for column in zip(*each, strict=True))

    return Proportions(NAMES, of)


def _proportions(
    launches: tuple[Launch, ...], loop: Loop, workload: Workload, gpu: GpuSpec
) -> tuple[float, ...]:
    launch, work = launches[0], operation_of(workload).work(workload, loop)
    ctas = at_work(launch, len(work.steps) * work.copies, work.batch, gpu.sm_count)
    # Registers are the compiler's to choose: as if they were no limit.
    resident = max(1, occupancy(launch, 1, 0, gpu))
    together = min(resident, -(-ctas // gpu.sm_count))
    steps = _steps_of_the_last(work.steps, work.copies, min(ctas, gpu.sm_count * together))
    warps = together * -(-math.prod(launch.block) // 32)
    products = steps * together * loop.rows * loop.keys
    shared = together * (launch.smem_bytes + 1)
    counted = (products, products / warps, warps, steps, loop.rows, loop.keys, shared)
    return *(math.log2(max(1.0, each)) for each in counted), float(len(launches))


@lru_cache(maxsize=1024)  # genomes with the same tile have the same
def _steps_of_the_last(steps: tuple[int, ...], copies: int, slots: int) -> float:
    return makespan([float(each) for each in steps], copies, slots)
