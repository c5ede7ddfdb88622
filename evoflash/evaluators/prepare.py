"""Renders, compiles and emulates one genome for every compile key of a problem. Needs no GPU.

These are the first rungs of the ladder. They run in a worker process: a compiler or an emulated kernel that
crashes or hangs costs this genome alone. What the performance model then says of it, an estimate for each
workload, is worth a proof where it keeps up with the best times of kernels that are proven.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from evoflash.emulator.preflight import check_finalist, preflight
from evoflash.evaluation import Build, Candidate, Rung, Status, Verdict
from evoflash.kernels.edited_text import render_edited
from evoflash.kernels.family import Family, load_family
from evoflash.kernels.gxx import KernelBuildError
from evoflash.kernels.nvrtc import compile_candidate, first_error
from evoflash.kernels.renderer import render
from evoflash.launch import does_not_fit
from evoflash.operation import most_workspace_bytes
from evoflash.perf_model import Estimate, Profile, estimate
from evoflash.problem import Problem
from evoflash.space import Genome
from evoflash.specs import GpuSpec
from evoflash.workload import Workload

PREPARE_LIMIT_S = 180.0  # of one genome; NVRTC takes under a second, the emulator a few
ELITES = 8
FEW = 2.5  # while there are fewer: what takes so many times the best one's time will not be one that matters
_ALIKE = 1.001  # times no further apart than this are one


@dataclass(frozen=True, slots=True)
class PreparationFailure:
    """Where and why a genome left the ladder."""

    status: Status
    rung: Rung
    reason: str


@dataclass(frozen=True, slots=True)
class ScreeningResult:
    """The estimates by which a genome is too slow to be proven, and what it had to keep up with."""

    estimates: tuple[Estimate, ...]
    rival_us: float


@dataclass(frozen=True, slots=True)
class Preparation:
    """A genome's builds, one for each compile key, and what the emulator said where it was asked."""

    builds: tuple[Build, ...] = ()
    failure: PreparationFailure | None = None
    verdicts: tuple[Verdict, ...] = ()
    profiles: tuple[Profile, ...] = ()  # in the order of builds; empty when not emulated
    screened: ScreeningResult | None = None
    judged: str = ""  # of an edited text: what it was compared with, in words; empty where it was not judged


def prepare(genome: Genome, problem: Problem, gpu: GpuSpec, emulate: bool, seed: int) -> Preparation:
    """Takes a genome up the ladder as far as it goes without a GPU; an edited text, which nothing emulates
    here, as far as the compiler.
    """
    family = load_family(genome.family)
    prepared = Preparation()
    for key in problem.compile_keys(gpu.arch):
        broken = family.space((key,), gpu).violations(genome)
        if broken:
            return _fail(prepared, Status.CONSTRAINTS, Rung.CHECKS, f"{', '.join(broken)} under {key}")
        workloads = tuple(w for w in problem.workloads if w.compile_key(gpu.arch) == key)
        prepared = _prepare_key(prepared, family, genome, workloads, gpu, emulate=emulate, seed=seed)
        if prepared.failure:
            return prepared
    return prepared


def with_preflight(
    genome: Genome,
    problem: Problem,
    gpu: GpuSpec,
    prepared: Preparation,
    seed: int,
    *,
    only_counted: bool = False,
) -> Preparation:
    """What prepare() made without the emulator, with what the emulator says of it.

    `only_counted`: no more than the runs that an estimate needs, which prove nothing; nor do they go by the
    compiler's registers.
    """
    family = load_family(genome.family)
    for at, key in enumerate(problem.compile_keys(gpu.arch)):
        registers = 0 if only_counted else prepared.builds[at].registers
        candidate = render(genome, key, gpu)
        prepared = _emulate(
            prepared, candidate, family, gpu, seed=seed, registers=registers, only_counted=only_counted
        )
        if prepared.failure:
            break
    return prepared


def failure_as_finalist(
    genome: Genome, problem: Problem, gpu: GpuSpec, seed: int, part: tuple[int, int], has_gpu: bool
) -> PreparationFailure | None:
    """Why a genome that came through its pre-flight is wrong all the same, by what only the best ones are
    emulated on; `part`: the n-th of so many parts of that; `has_gpu`: a GPU sees it on hidden shapes.
    """
    family = load_family(genome.family)
    for key in problem.compile_keys(gpu.arch):
        candidate = render(genome, key, gpu)
        registers = compile_candidate(candidate).registers
        found = check_finalist(
            candidate, family, gpu, seed=seed, part=part, registers=registers, has_gpu=has_gpu
        )
        if found.complaint:
            return PreparationFailure(found.status, Rung.PREFLIGHT, found.complaint)
    return None


def compile_only(genome: Genome, problem: Problem, gpu: GpuSpec) -> tuple[Build, ...]:
    """The genome's builds, one for each compile key; nothing is emulated."""
    keys = problem.compile_keys(gpu.arch)
    return tuple(compile_candidate(render_edited(genome, key, gpu)) for key in keys)


def _prepare_key(
    prepared: Preparation,
    family: Family,
    genome: Genome,
    workloads: tuple[Workload, ...],
    gpu: GpuSpec,
    *,
    emulate: bool,
    seed: int,
) -> Preparation:
    """One compile key, that of the workloads."""
    rendered = render if emulate else render_edited
    candidate = rendered(genome, workloads[0].compile_key(gpu.arch), gpu)
    build = compile_candidate(candidate)
    # The log stays in the cache folder: it would be most of the database.
    prepared = replace(prepared, builds=(*prepared.builds, replace(build, log="")))
    if not build.ok:
        return _fail(prepared, Status.COMPILE, Rung.COMPILE, first_error(build.log))
    if reason := _does_not_fit(family, genome, workloads, build, gpu):
        return _fail(prepared, Status.CONSTRAINTS, Rung.COMPILE, reason)
    if not emulate:
        return prepared
    return _emulate(prepared, candidate, family, gpu, seed=seed, registers=build.registers)


def _does_not_fit(
    family: Family, genome: Genome, workloads: tuple[Workload, ...], build: Build, gpu: GpuSpec
) -> str:
    """Why the GPU has no room for a launch of the genome on one of the workloads, or nothing."""
    for workload in workloads:
        most_bytes = most_workspace_bytes(workload)
        for launch in family.launches(genome, workload, gpu):
            if launch.workspace_bytes > most_bytes:
                asked = f"{launch.entry}: a workspace of {launch.workspace_bytes} bytes for {workload}"
                return f"{asked}; it may have {most_bytes}"
            smem_bytes = build.smem_static_bytes
            if reason := does_not_fit(launch, gpu, registers=build.registers, smem_static_bytes=smem_bytes):
                return reason
    return ""


def _emulate(
    prepared: Preparation,
    candidate: Candidate,
    family: Family,
    gpu: GpuSpec,
    *,
    seed: int,
    registers: int,
    only_counted: bool = False,
) -> Preparation:
    try:
        found = preflight(candidate, family, gpu, seed=seed, registers=registers, only_counted=only_counted)
    except KernelBuildError as error:
        return _fail(prepared, Status.COMPILE, Rung.PREFLIGHT, str(error))
    prepared = replace(
        prepared,
        verdicts=(*prepared.verdicts, *found.verdicts),
        profiles=(*prepared.profiles, found.profile),
    )
    if found.complaint:
        return _fail(prepared, found.status, Rung.PREFLIGHT, found.complaint)
    return prepared


def _fail(prepared: Preparation, status: Status, rung: Rung, reason: str) -> Preparation:
    return replace(prepared, failure=PreparationFailure(status, rung, reason))


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
