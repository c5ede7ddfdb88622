"""What the performance model says of a prepared genome, one estimate for each workload; measures nothing."""

from evoflash.evaluators.prepare import Prepared
from evoflash.families.family import load_family
from evoflash.gpu import GpuSpec
from evoflash.perf_model.estimate import Estimate, estimate
from evoflash.problem import Problem
from evoflash.space import Genome


def estimates(genome: Genome, prepared: Prepared, problem: Problem, gpu: GpuSpec) -> tuple[Estimate, ...]:
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
