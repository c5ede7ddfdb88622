"""What `evoflash check` is to check: a genome or a user's own file, as texts and launches; runs nothing."""

import hashlib
import re
from dataclasses import dataclass, replace
from pathlib import Path

from evoflash.commands.check.kernel_file import Argument, KernelFile
from evoflash.commands.check.kernel_header import read_kernel_file
from evoflash.compilers.ef_layer import device_headers_sha
from evoflash.errors import UsageError
from evoflash.evaluation import Candidate, Launch
from evoflash.families.export import genome_of
from evoflash.families.family import load_family
from evoflash.families.renderer import lint, render
from evoflash.gpu import GpuSpec, load_gpu
from evoflash.operation import CompileKey, Loop, Workload, registry
from evoflash.operation.registry import operation_of
from evoflash.problem import Problem, parse_problem
from evoflash.space import Genome

_MOST_FLOPS = 1 << 26  # of a workload, up to which it is emulated: some 0.2 s
_LINT = re.compile(r"^(.*) at line (\d+)$")


@dataclass(frozen=True, slots=True)
class WorkloadCase:
    """A workload whose result is known."""

    workload: Workload
    launches: tuple[Launch, ...]
    is_crowded: bool = False  # on a GPU with a single SM: persistent blocks take several tiles each


@dataclass(frozen=True, slots=True)
class OwnCase:
    """One launch with arguments of its own: no result to compare with."""

    launch: Launch
    arguments: tuple[Argument, ...]


Case = WorkloadCase | OwnCase


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """One kernel text and the launches to try. Findings point into `shown`, `shift` lines further down."""

    title: str
    name: str  # of the text's file, without .cu
    source: str
    cases: tuple[Case, ...]
    candidate: Candidate | None  # for NVRTC; None where no GPU is named
    gpu: GpuSpec | None
    path: Path | None  # of the file to show; None: where the build leaves the text
    shown: str  # that file's text
    shift: int = 0
    unseen: tuple[tuple[str, int], ...] = ()  # what the emulator cannot see, and its line
    notes: tuple[str, ...] = ()  # what the reader should know about what was checked


def of_genome(genome: Genome, problem: Problem, gpu: GpuSpec) -> tuple[Subject, ...]:
    """A genome, once for each kernel that the problem's workloads compile to."""
    return tuple(_of_key(genome, problem, key, gpu) for key in problem.compile_keys(gpu.arch))


def _of_key(genome: Genome, problem: Problem, key: CompileKey, gpu: GpuSpec) -> Subject:
    family, candidate = load_family(genome.family), render(genome, key, gpu)
    wanted = tuple(w for w in problem.workloads if w.compile_key(gpu.arch) == key)
    loop = family.loop(family.names(genome.as_dict(), key, gpu))
    workloads, notes = _workloads(key, loop, wanted, whole_groups=False)
    cases = [WorkloadCase(w, family.launches(genome, w, gpu)) for w in workloads]
    lone_sm = replace(gpu, sm_count=1)
    crowded = [WorkloadCase(w, family.launches(genome, w, lone_sm), is_crowded=True) for w in workloads]
    cases += [new for new, case in zip(crowded, cases, strict=True) if new.launches != case.launches]
    return Subject(
        title=f"{family.name} {genome.id} for {key} on {gpu.name}",
        name=family.name,
        source=candidate.source,
        cases=tuple(cases),
        candidate=candidate,
        gpu=gpu,
        path=None,
        shown=candidate.source,
        notes=notes,
    )


def _workloads(
    key: CompileKey, loop: Loop, wanted: tuple[Workload, ...], *, whole_groups: bool
) -> tuple[tuple[Workload, ...], tuple[str, ...]]:
    """The pre-flight's shapes for the text as it is, then the problem's own where they are small; and a word
    about those left out.
    """
    small = [w for w in wanted if w.flops <= _MOST_FLOPS]
    large = [w for w in wanted if w not in small]
    notes = tuple(f"{w} is too large for the emulator: smaller shapes stand for it." for w in large)
    planned = operation_of(key).preflight_runs(key, loop, whole_groups=whole_groups)
    shapes = (run.workload for run in planned if whole_groups or not run.shrunk)
    return tuple(dict.fromkeys([*shapes, *small])), notes


def of_words(family: str, words: list[str], *, problem: str, gpu: str) -> tuple[Subject, ...]:
    """A genome as `evoflash export` takes it."""
    return of_genome(*genome_of(family, words, problem=problem, gpu=gpu))


def of_file(path: Path, *, problem: str | None, gpu: str | None) -> tuple[Subject, ...]:
    """A user's own .cu. UsageError says what is missing in it."""
    return (_own(path, read_text(path), problem, load_gpu(gpu) if gpu else None),)


def read_text(path: Path) -> str:
    """A file's text; UsageError where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"{path} cannot be read ({why}): give a .cu file or a genome id.") from None


def _own(path: Path, text: str, problem: str | None, gpu: GpuSpec | None) -> Subject:
    kernel = read_kernel_file(path, text)
    key, cases, notes = _cases(kernel, problem, gpu)
    name = re.sub(r"\W", "_", path.stem)
    if gpu is None:
        notes = (*notes, "no --gpu: neither NVRTC nor ptxas was asked about registers, spills and limits.")
    return Subject(
        title=str(path),
        name=name,
        source=text,
        cases=cases,
        candidate=candidate_of(Genome(name, 0, ()), text, key) if key else None,
        gpu=gpu,
        path=path,
        shown=text,
        unseen=unseen_lines(text),
        notes=notes,
    )


def unseen_lines(text: str) -> tuple[tuple[str, int], ...]:
    """What a kernel's text uses that the emulator cannot see, and on which line."""
    warnings = (_LINT.match(warning) for warning in lint(text))
    return tuple((match[1], int(match[2])) for match in warnings if match)


def _cases(
    kernel: KernelFile, problem: str | None, gpu: GpuSpec | None
) -> tuple[CompileKey | None, tuple[Case, ...], tuple[str, ...]]:
    arch = gpu.arch if gpu else ""
    if kernel.loop is None:
        if problem:
            raise UsageError(f"{kernel.path} has arguments of its own: --problem is for attention kernels.")
        # NVRTC wants an arch; the rest of the key plays no part.
        key = registry.default().probe.compile_key(arch) if gpu else None
        return key, (OwnCase(kernel.launch(), kernel.arguments),), ()
    if not (problem or kernel.problem):
        raise UsageError(
            f"what {kernel.path} computes is not said: give --problem, or `problem` in its attention table."
        )
    wanted = parse_problem(problem or kernel.problem)
    keys = wanted.compile_keys(arch)
    if len(keys) > 1:
        raise UsageError(
            f"the workloads of '{wanted}' need {len(keys)} different kernels: check them one by one."
        )
    workloads, notes = _workloads(keys[0], kernel.loop, wanted.workloads, whole_groups=True)
    cases = tuple(WorkloadCase(w, (kernel.launch(w),)) for w in workloads)
    return keys[0] if gpu else None, cases, notes


def candidate_of(genome: Genome, text: str, key: CompileKey) -> Candidate:
    """A kernel's text as NVRTC takes it."""
    sha = hashlib.sha256((text + device_headers_sha()).encode()).hexdigest()
    return Candidate(genome, key, text, sha)
