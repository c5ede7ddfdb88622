"""What the performance model says of a prepared genome, one estimate for each workload; measures nothing."""

from collections.abc import Sequence

from evoflash.evaluators.prepare import Prepared
from evoflash.families.family import load_family
from evoflash.gpu import GpuSpec
from evoflash.perf_model.estimate import Estimate, Profile, estimate
from evoflash.problem import Problem
from evoflash.space import Genome

_REGISTERS = range(8, 257, 8)  # of a thread: they are given out by eights


def estimates(genome: Genome, prepared: Prepared, problem: Problem, gpu: GpuSpec) -> tuple[Estimate, ...]:
    """In the order of the problem's workloads; empty when the genome was not emulated."""
    if not prepared.profiles:
        return ()
    keys = problem.compile_keys(gpu.arch)
    found = []
    for workload in problem.workloads:
        at = keys.index(workload.compile_key(gpu.arch))
        build = prepared.builds[at]
        found.append(
            estimate(
                prepared.profiles[at],
                load_family(genome.family).launches(genome, workload, gpu),
                workload,
                gpu,
                registers=build.registers,
                spill_bytes=build.spill_bytes,
                smem_static_bytes=build.smem_static_bytes,
            )
        )
    return tuple(found)


def at_best(
    genome: Genome, profiles: Sequence[Profile], problem: Problem, gpu: GpuSpec
) -> tuple[Estimate, ...]:
    """As estimates(), of a genome that is not compiled for the GPU: with nothing spilled, and as many
    registers as make it fastest. `profiles` are in the order of the problem's compile keys.
    """
    keys = problem.compile_keys(gpu.arch)
    found = []
    for workload in problem.workloads:
        profile = profiles[keys.index(workload.compile_key(gpu.arch))]
        launches = load_family(genome.family).launches(genome, workload, gpu)
        each = (estimate(profile, launches, workload, gpu, registers=count) for count in _REGISTERS)
        found.append(min(each, key=lambda one: one.total_us))
    return tuple(found)


def bound_of(found: tuple[Estimate, ...]) -> str:
    """The bound of the slowest workload; empty when nothing was estimated."""
    return max(found, key=lambda each: each.total_us).bound if found else ""
