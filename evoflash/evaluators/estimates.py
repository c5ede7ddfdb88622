"""What the performance model says of a prepared genome, one estimate for each workload. Measures nothing.

An estimate is worth a proof where it keeps up with the best times of kernels that are proven.
"""

from collections.abc import Iterable, Sequence

from evoflash.evaluators.prepare import Preparation
from evoflash.kernels.family import load_family
from evoflash.perf_model.estimate import Estimate, estimate
from evoflash.problem import Problem
from evoflash.space import Genome
from evoflash.specs import GpuSpec


def estimates(genome: Genome, prepared: Preparation, problem: Problem, gpu: GpuSpec) -> tuple[Estimate, ...]:
    """In the order of the problem's workloads; empty when the genome was not emulated."""
    if not prepared.profiles:
        return ()
    keys, family = problem.compile_keys(gpu.arch), load_family(genome.family)
    found = []
    for workload in problem.workloads:
        at = keys.index(workload.compile_key(gpu.arch))
        build = prepared.builds[at]
        found.append(
            estimate(
                prepared.profiles[at],
                family.launches(genome, workload, gpu),
                workload,
                gpu,
                registers=build.registers,
                spill_bytes=build.spill_bytes,
                smem_static_bytes=build.smem_static_bytes,
            )
        )
    return tuple(found)


def bound_of(found: tuple[Estimate, ...]) -> str:
    """The bound of the slowest workload; empty when nothing was estimated."""
    return max(found, key=lambda each: each.total_us).bound if found else ""


ELITES = 8
FEW = 2.5  # while there are fewer: what takes so many times the best one's time will not be one that matters
_ALIKE = 1.001  # times no further apart than this are one


def rivals(proven_us: Iterable[float]) -> tuple[float, ...]:
    """The best times of proven kernels, fastest first, each once; eight at most."""
    found: list[float] = []
    for us in sorted(proven_us):
        if not found or us > _ALIKE * found[-1]:
            found.append(us)
    return tuple(found[:ELITES])


def rival_beating(us: float, times_us: Sequence[float]) -> float | None:
    """The rival or limit that makes a proof of an estimate needless; None where it is worth one.

    Whatever is faster than all of them is worth one, however little.
    """
    if not times_us or us < times_us[0]:
        return None
    alike = next((rival for rival in times_us if rival / _ALIKE <= us <= rival * _ALIKE), None)
    limit = times_us[-1] if len(times_us) >= ELITES else FEW * times_us[0]
    return alike or (limit if us >= limit else None)
