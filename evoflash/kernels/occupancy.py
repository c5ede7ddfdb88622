"""How a genome's launches fill a GPU, told before anything is compiled. Estimates no time.

It also tells whether a GPU has room for a launch: for its clusters, and for blocks that must all be there at
once.
"""

import math
from functools import lru_cache

from evoflash.kernels.family import Family
from evoflash.launch import LaunchConfig
from evoflash.operation import Loop, Workload, operation_of
from evoflash.perf_model.estimate import occupancy
from evoflash.perf_model.schedule import at_work, makespan
from evoflash.problem import Problem
from evoflash.space import Genome, Proportions
from evoflash.specs import GpuSpec

# What a launch may ask of any GPU: CUDA's programming guide, compute capabilities up to 12.0.
_MOST_BLOCKS = (2**31 - 1, 65_535, 65_535)
_MOST_SMEM_BYTES = 227 * 1024  # of a block
_CLUSTERS_FROM = 90  # compute capability
_LARGEST_CLUSTER = 16  # blocks; more than 8 have to be allowed, which gpu/driver.py does


def beyond_every_gpu(launch: LaunchConfig) -> str:
    """Why no GPU can run the launch, in one line; empty when there may be one that can."""
    for axis, blocks, most in zip("xyz", launch.grid, _MOST_BLOCKS, strict=True):
        if blocks > most:
            return f"{launch.entry}: a grid of {blocks} blocks along {axis}; a GPU launches at most {most}"
    if launch.smem_bytes > _MOST_SMEM_BYTES:
        limit = f"no GPU gives a block more than {_MOST_SMEM_BYTES}"
        return f"{launch.entry}: {launch.smem_bytes} bytes of shared memory; {limit}"
    return ""


def does_not_fit(launch: LaunchConfig, gpu: GpuSpec, *, registers: int, smem_static_bytes: int = 0) -> str:
    """Why the GPU cannot run the launch, in one line; empty when it can.

    Of clusters, the driver may fit fewer than this says (they do not straddle groups of SMs): it has the last
    word, see launcher.py.
    """
    if reason := beyond_every_gpu(launch):
        return reason
    size = math.prod(launch.cluster)
    if size > 1 and gpu.compute_capability < _CLUSTERS_FROM:
        return f"{launch.entry}: clusters need sm_{_CLUSTERS_FROM}, {gpu.name} is {gpu.arch}"
    if not 1 <= size <= _LARGEST_CLUSTER:
        return f"{launch.entry}: a cluster of {size} blocks; it has 1 to {_LARGEST_CLUSTER}"
    if any(blocks % side for blocks, side in zip(launch.grid, launch.cluster, strict=True)):
        return f"{launch.entry}: the grid {launch.grid} is no multiple of the cluster {launch.cluster}"
    if not launch.resident:
        return ""
    room = gpu.sm_count * occupancy(launch, registers, smem_static_bytes, gpu)
    return too_many(launch, room) if math.prod(launch.grid) > room else ""


def too_many(launch: LaunchConfig, room: int) -> str:
    """The complaint about a resident launch of more blocks than there is room for."""
    blocks = math.prod(launch.grid)
    return f"{launch.entry}: its {blocks} blocks wait for one another, and {room} fit on the GPU at once"


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
    launches: tuple[LaunchConfig, ...], loop: Loop, workload: Workload, gpu: GpuSpec
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
