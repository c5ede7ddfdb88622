"""What `evoflash check` is to check, as texts and launches: a genome or a user's file. Runs nothing.

A file that `evoflash export` wrote is recognised, whether it was edited since or not.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evoflash import operation as registry
from evoflash.app.check.cases import Case, OwnCase, WorkloadCase
from evoflash.app.check.own_kernel import KernelFile, read_kernel_file
from evoflash.app.check.text_findings import unseen_lines
from evoflash.emulator.launch import beyond_emulator
from evoflash.emulator.preflight import shrunk_text, small_gpu
from evoflash.errors import UsageError
from evoflash.evaluation import Candidate
from evoflash.kernels.ef_layer import device_headers_sha, primitives
from evoflash.kernels.family import load_family
from evoflash.kernels.lint import Refusal
from evoflash.kernels.plain_cuda import is_plain, own_headers, plain_text, text_for_nvrtc
from evoflash.kernels.renderer import render
from evoflash.kernels.standalone import (
    export_kernel,
    export_words,
    genome_of,
    genome_of_words,
    without_prefix,
)
from evoflash.operation import EmulatedRun, Loop, operation_of
from evoflash.problem import Problem, parse_problem
from evoflash.space import Genome
from evoflash.specs import GpuSpec, load_gpu
from evoflash.workload import CompileKey, Workload


@dataclass(frozen=True, slots=True)
class PlannedCase:
    """A run of the pre-flight that a kernel of somebody else is to pass as our own do, and its case."""

    case: WorkloadCase
    planned: EmulatedRun
    text: str = ""  # of the kernel with smaller constants; "": as it is


_MOST_FLOPS = 1 << 26  # of a workload, up to which it is emulated: some 0.2 s


@dataclass(frozen=True, slots=True, eq=False)
class KernelUnderTest:
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
    unseen: tuple[Refusal, ...] = ()  # what the emulator cannot see
    beyond: tuple[Refusal, ...] = ()  # of plain CUDA: what the emulator has no way to run
    notes: tuple[str, ...] = ()  # what the reader should know about what was checked
    problem: str = ""  # what it computes, where that is known
    is_foreign: bool = False  # somebody wrote or edited the text
    planned: tuple[PlannedCase, ...] = ()  # of a foreign one: runs that go as planned, each once


def of_genome(genome: Genome, problem: Problem, gpu: GpuSpec) -> tuple[KernelUnderTest, ...]:
    """A genome, once for each kernel that the problem's workloads compile to."""
    return tuple(_of_key(genome, problem, key, gpu) for key in problem.compile_keys(gpu.arch))


def _of_key(genome: Genome, problem: Problem, key: CompileKey, gpu: GpuSpec) -> KernelUnderTest:
    family, candidate = load_family(genome.family), render(genome, key, gpu)
    wanted = tuple(w for w in problem.workloads if w.compile_key(gpu.arch) == key)
    loop = family.loop(family.names(genome.as_dict(), key, gpu))
    workloads, notes = _workloads(key, loop, wanted, whole_groups=False)
    cases = [WorkloadCase(w, family.launches(genome, w, gpu)) for w in workloads]
    lone_sm = replace(gpu, sm_count=1)
    crowded = [WorkloadCase(w, family.launches(genome, w, lone_sm), sms=1) for w in workloads]
    cases += [new for new, case in zip(crowded, cases, strict=True) if new.launches != case.launches]
    return KernelUnderTest(
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


def named_kernels(
    what: str | None,
    family: str | None,
    values: list[str],
    *,
    problem: str | None,
    gpu: str | None,
    db: str,
    header: Path | None = None,
) -> tuple[KernelUnderTest, ...]:
    """What an id, a file, or a family with values stands for. UsageError for both, and for none.

    `header` says how a file's kernel is launched, in place of its comment.
    """
    if (what is None) == (family is None):
        raise UsageError("give a genome id, a .cu file, or --family with --set and --gpu.")
    if family is not None:
        if gpu is None:
            raise UsageError("--family needs --gpu: what a kernel may use depends on it.")
        return of_genome(*genome_of(family, values, problem=problem, gpu=gpu))
    if values:
        raise UsageError("--set goes with --family.")
    path = Path(str(what))
    if path.exists() or not re.fullmatch(r"[0-9a-f]{1,16}", str(what)):
        if header is not None or not is_exported(path, read_text(path)):
            return of_file(path, problem=problem, gpu=gpu, header=header)
        return of_export(path, problem=problem, gpu=gpu)
    if header is not None:
        raise UsageError("--header goes with a .cu file.")
    from evoflash.app.kernel_lookup import known_genome

    return of_genome(*known_genome(str(what), db, problem=problem, gpu=gpu))


def of_file(
    path: Path, *, problem: str | None, gpu: str | None, header: Path | None = None
) -> tuple[KernelUnderTest, ...]:
    """A user's own .cu. UsageError says what is missing in it."""
    shown = read_text(path)
    kernel = read_kernel_file(path, shown, header)
    return (_own(path, kernel, shown, problem, load_gpu(gpu) if gpu else None),)


def read_text(path: Path) -> str:
    """A file's text; UsageError where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"{path} cannot be read ({why}): give a .cu file or a genome id.") from None


def _own(
    path: Path, kernel: KernelFile, shown: str, problem: str | None, gpu: GpuSpec | None
) -> KernelUnderTest:
    text = kernel.text
    key, cases, planned, notes = _cases(kernel, problem, gpu)
    name = re.sub(r"\W", "_", path.stem)
    plain, compiled = None, text
    if is_plain(text):
        plain = plain_text(text, kernel.entries, name=name, headers=own_headers(text, path.parent))
        compiled = text_for_nvrtc(text, kernel.entries, name=name, folder=path.parent)
        notes = (*notes, "plain CUDA: its host code was left out.")
    if gpu is None:
        notes = (*notes, "no --gpu: neither NVRTC nor ptxas was asked about registers, spills and limits.")
    return KernelUnderTest(
        title=str(path),
        name=name,
        source=plain.source if plain else text,
        cases=cases,
        candidate=candidate_of(Genome(name, 0, ()), compiled, key) if key else None,
        gpu=gpu,
        path=path,
        shown=shown,
        unseen=() if plain else unseen_lines(text),
        beyond=plain.unseen if plain else (),
        notes=notes,
        is_foreign=True,
        planned=planned,
        problem=str(parse_problem(problem or kernel.problem)) if problem or kernel.problem else "",
    )


def _cases(
    kernel: KernelFile, problem: str | None, gpu: GpuSpec | None
) -> tuple[CompileKey | None, tuple[Case, ...], tuple[PlannedCase, ...], tuple[str, ...]]:
    arch = gpu.arch if gpu else ""
    if kernel.loop is None:
        if problem:
            raise UsageError(
                f"{kernel.path} has arguments of its own: --problem is for those of an operation."
            )
        # NVRTC wants an arch; the rest of the key plays no part.
        key = registry.default().probe.compile_key(arch) if gpu else None
        return key, (OwnCase(kernel.launches()[0], kernel.arguments),), (), ()
    if not (problem or kernel.problem):
        raise UsageError(
            f"what {kernel.path} computes is not said: give --problem, or `problem` in its "
            f"{kernel.operation} table."
        )
    wanted = parse_problem(problem or kernel.problem)
    if wanted.operation != kernel.operation:
        raise UsageError(
            f"{kernel.path} has the arguments of {kernel.operation}, and '{wanted}' is {wanted.operation}: "
            f"its comment needs `{wanted.operation} = {{}}` for that."
        )
    keys = wanted.compile_keys(arch)
    if len(keys) > 1:
        raise UsageError(
            f"the workloads of '{wanted}' need {len(keys)} different kernels: check them one by one."
        )
    if kernel.arguments_on is not None:
        cases = tuple(
            WorkloadCase(w, kernel.launches(w), arguments=kernel.arguments_on(w)) for w in wanted.workloads
        )
        return keys[0] if gpu else None, cases, (), ()
    workloads, notes = _workloads(keys[0], kernel.loop, wanted.workloads, whole_groups=True)
    cases = tuple(WorkloadCase(w, kernel.launches(w)) for w in workloads)
    runs = operation_of(keys[0]).preflight_runs(keys[0], kernel.loop, whole_groups=True)
    return keys[0] if gpu else None, cases, _planned_of_file(kernel, runs), notes


def hidden_runs(
    path: Path, problem: str | None, *, seed: int, header: Path | None = None
) -> tuple[PlannedCase, ...]:
    """Runs on small workloads that are drawn for a file's kernel, besides those that follow from its tiles;
    none for one that says nothing of its problem.
    """
    text = read_text(path)
    if header is None and is_exported(path, text):
        words = export_words(text, path)
        assert words is not None, "it is exported"
        genome, what, gpu = genome_of_words(words, problem=problem)
        (key, *_) = what.compile_keys(gpu.arch)
        return _planned_of_genome(genome, key, gpu, "", _drawn_runs(key, _loop_of(genome, key, gpu), seed))
    kernel = read_kernel_file(path, text, header)
    if kernel.loop is None or kernel.arguments_on is not None:
        return ()
    (key, *_) = parse_problem(problem or kernel.problem).compile_keys("")
    return _planned_of_file(kernel, _drawn_runs(key, kernel.loop, seed))


def _drawn_runs(key: CompileKey, loop: Loop, seed: int) -> tuple[EmulatedRun, ...]:
    draw = operation_of(key).drawn_runs
    return draw(key, loop, seed=seed) if draw is not None else ()


def _loop_of(genome: Genome, key: CompileKey, gpu: GpuSpec) -> Loop:
    family = load_family(genome.family)
    return family.loop(family.names(genome.as_dict(), key, gpu))


def _planned_of_file(kernel: KernelFile, runs: Sequence[EmulatedRun]) -> tuple[PlannedCase, ...]:
    """Its launches do not go by the GPU, and no constant of its text is known to be smaller in a test."""
    return tuple(PlannedCase(WorkloadCase(run.workload, kernel.launches(run.workload)), run) for run in runs)


def _planned_of_genome(
    genome: Genome, key: CompileKey, gpu: GpuSpec, source: str, runs: Sequence[EmulatedRun]
) -> tuple[PlannedCase, ...]:
    """The runs that our own kernels meet, for an edited text of a genome: the same launches and constants."""
    family, values = load_family(genome.family), genome.as_dict()
    cases = list[PlannedCase]()
    for run in runs:
        launches = family.launches(genome, run.workload, small_gpu(run, gpu))
        if not family.shrunk.keys() >= {*run.shrunk} or any(map(beyond_emulator, launches)):
            continue
        sms = max(1, run.sms) if run.crowded else 0
        case = WorkloadCase(run.workload, launches, sms, is_deterministic=family.is_deterministic)
        text = shrunk_text(source, values, family, run, gpu) if run.shrunk else ""
        cases.append(PlannedCase(case, run, text))
    return tuple(cases)


def candidate_of(genome: Genome, text: str, key: CompileKey) -> Candidate:
    sha = hashlib.sha256((text + device_headers_sha()).encode()).hexdigest()
    return Candidate(genome, key, text, sha)


_INCLUDE = '#include "ef.h"\n'
_LAYER_ENDS = "}  // namespace ef\n"
_KERNEL_ENDS = re.compile(r"^EF_EXPORT_KERNEL\(.*\n", re.MULTILINE)  # below it stands the launcher


def is_exported(path: Path, text: str) -> bool:
    """Whether it has an export's banner, and its layer in place of an #include; UsageError: half a banner."""
    return _INCLUDE not in text and export_words(text, path) is not None


def of_export(path: Path, *, problem: str | None, gpu: str | None) -> tuple[KernelUnderTest, ...]:
    """The kernel of an exported file, for its banner's problem and GPU or for others that it is compiled for.

    UsageError where the banner, the layer or their order are no more those of an export.
    """
    text = read_text(path)
    words = export_words(text, path)
    assert words is not None, "is_exported() was asked"
    was, now = genome_of_words(words), genome_of_words(words, problem=problem, gpu=gpu)
    _check_compiled_for(path, was[1], now[1], now[2].arch)
    (exported,), (rendered,) = of_genome(*was), of_genome(*now)
    head, _, original = exported.source.partition(_INCLUDE)
    kernel, before = _kernel(path, text, original)
    kernel = without_prefix(kernel, load_family(words.family), words.prefix)
    edits = _edits(original, kernel)
    source = head + _INCLUDE + kernel
    (genome, _, spec), (key, *_) = now, now[1].compile_keys(now[2].arch)
    runs = operation_of(key).preflight_runs(key, _loop_of(genome, key, spec)) if edits else ()
    subject = replace(
        rendered,
        title=f"{path}: {rendered.title}" + (", edited" if edits else ""),
        source=source,
        candidate=candidate_of(genome, source, key),
        planned=_planned_of_genome(genome, key, spec, source, runs),
        path=path,
        shown=text,
        shift=before - head.count("\n") - _INCLUDE.count("\n"),
        unseen=unseen_lines(source),
        problem=str(now[1]),
        is_foreign=edits > 0,
        notes=(
            *_notes(path, text, edits, export_kernel(*was, prefix=words.prefix, claims=words.claims)),
            *rendered.notes,
        ),
    )
    return (subject,)


def genome_in(path: Path, text: str) -> tuple[Genome, Problem, GpuSpec]:
    """What an exported file holds. UsageError where its kernel is not that genome's any more."""
    words = export_words(text, path)
    assert words is not None, "is_exported() was asked"
    genome, problem, gpu = genome_of_words(words)
    if edits_in(path, text):
        raise UsageError(
            f"the kernel in {path} was edited, or exported by another version: it is no genome of "
            f"{genome.family} any more. `evoflash check` looks into an edited kernel; else export it "
            "again, or write it as a kernel of your own with ef::."
        )
    return genome, problem, gpu


def edits_in(path: Path, text: str) -> int:
    """How many lines of an exported file's kernel are not as its banner's genome has them.

    UsageError where the layer above the kernel, or the order of the parts, is not an export's any more.
    """
    words = export_words(text, path)
    assert words is not None, "is_exported() was asked"
    (exported,) = of_genome(*genome_of_words(words))
    original = exported.source.partition(_INCLUDE)[2]
    kernel, _ = _kernel(path, text, original)
    return _edits(original, without_prefix(kernel, load_family(words.family), words.prefix))


def _check_compiled_for(path: Path, was: Problem, now: Problem, arch: str) -> None:
    """UsageError where the text in the file is not what the other problem would be compiled from."""
    if was.compile_keys(arch) != now.compile_keys(arch):
        raise UsageError(
            f"{path} was exported for '{was}', and its kernel is compiled for that: it cannot be checked "
            f"for '{now}'; export the genome for that problem, or leave --problem out."
        )


def _kernel(path: Path, text: str, original: str) -> tuple[str, int]:
    """The kernel's text between layer and launcher, and how many lines of the file stand before it.

    The layer is that of the original text or, where an edited genome was exported, of the kernel as it is.
    """
    at = text.find(_LAYER_ENDS) + len(_LAYER_ENDS)
    end = max((found.end() for found in _KERNEL_ENDS.finditer(text)), default=0)
    if at < len(_LAYER_ENDS) or end < at:
        raise UsageError(
            f"{path} is not laid out as an export any more (banner, namespace ef, kernel, launcher): export "
            "it again, or write the kernel as one of your own (`evoflash check --help`)."
        )
    kernel, layer = text[at:end], primitives(original)
    if layer not in text[:at] and primitives(kernel) not in text[:at]:
        have = set(text.splitlines())
        changed = next((line.strip() for line in layer.splitlines() if line not in have), "")
        what = f"'{changed[:60]}' is not in the file" if changed else "its lines are in another order"
        raise UsageError(
            f"the PTX above the kernel in {path} is not what its command prints ({what}): it was edited, or "
            "exported by another version. It cannot run here, so nothing could be said of the file: export "
            "it again, or write the change as a kernel of your own with ef:: (`evoflash check --help`)."
        )
    return kernel, text.count("\n", 0, at)


def _edits(original: str, kernel: str) -> int:
    """How many lines of the kernel are not those that were exported, blank ones aside."""
    lines = [[line for line in part.splitlines() if line.strip()] for part in (original, kernel)]
    if lines[0] == lines[1]:
        return 0
    known = set(lines[0])
    return max(1, sum(line not in known for line in lines[1]))


def _notes(path: Path, text: str, edits: int, export: str) -> tuple[str, ...]:
    notes = [f"{path} inlines PTX; its kernel was run with ef:: in place of that: lines are those of {path}."]
    if edits:
        lines = f"{edits} line{'s' * (edits > 1)}"
        notes.append(
            f"the kernel was edited ({lines} not as exported): the edited text was run, launched as its "
            "banner says."
        )
    elif text != export:
        notes.append(f"{path} differs from its export outside of the kernel: that part is not checked.")
    return tuple(notes)
