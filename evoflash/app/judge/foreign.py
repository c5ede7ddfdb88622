"""Judges a kernel file of anybody's: compiled and emulated in a sandbox, timed where there is a GPU.

Shapes and seeds are drawn anew for each answer unless a seed is given, so that nobody can write a kernel for
them. Stores nothing, and prints nothing.
"""

import math
import secrets
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import geometric_mean
from typing import Any, Literal

from evoflash.app.check.confined_runs import Confinement
from evoflash.app.check.findings import Finding
from evoflash.app.check.runs import CheckReport, check_kernel
from evoflash.app.check.subject import KernelUnderTest, edits_in, hidden_runs, is_exported, named_kernels
from evoflash.app.compare import ComparisonFailedError, ComparisonRun, PairResult, compare_by_name
from evoflash.app.judge.answer import AnswerStatus, AnswerTiming, KernelAnswer, refusal
from evoflash.app.judge.python_forms import PythonCallError, judge_python
from evoflash.app.judge.python_timing import time_python, why_not_timed
from evoflash.app.judge.sources import RefusedError, SubmittedText, is_solution, read_submission
from evoflash.errors import DeviceError, EvoflashError, UsageError
from evoflash.gpu import baselines, launcher
from evoflash.gpu.timing.paired import answer_of
from evoflash.notices import count_of
from evoflash.operation import operation_of
from evoflash.problem import parse_problem
from evoflash.sandbox.boundary import Boundary, found_boundary
from evoflash.specs import GpuSpec, load_gpu
from evoflash.workload import ELEMENT_BYTES, Workload

Stage = Literal["check", "smoke", "time"]
STAGES: tuple[Stage, ...] = ("check", "smoke", "time")

_ENDLESS = ("TIMEOUT", "LIVELOCK", "DEADLOCK", "hang")
_BROKEN = ("crash", "cannot-launch", "divergence", "stack-overflow", "divide-by-zero", "named-barrier")
_OUT_OF_PLACE = ("OOB-", "misaligned-", "array-bounds", "write-to-input", "foreign-local")


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """What is asked about a kernel, and how long it may take. `seed` None: one is drawn."""

    problem: str | None = None
    gpu: str | None = None
    stage: Stage = "time"
    seed: int | None = None
    timeout_s: float = 120.0
    is_unsafe: bool = False
    header: Path | None = None  # a file that says of a .cu what its comment would


def is_foreign(path: Path) -> bool:
    """Whether a file is judged as somebody's kernel, rather than as a genome that it names: a .cu but an
    export that nobody edited, a solution's JSON, or Python.
    """
    if path.suffix == ".json":
        return is_solution(path)
    if path.suffix != ".cu":
        return path.suffix == ".py"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return not is_exported(path, text) or edits_in(path, text) > 0


def judge_file(path: Path, options: JudgeOptions, *, db: str) -> KernelAnswer:
    """The answer about a kernel file. UsageError where it cannot be read or says nothing of its launch,
    SandboxError where nothing can keep it in.
    """
    if options.header is not None and path.suffix != ".cu":
        raise UsageError("--header goes with a .cu file.")
    begun_s = time.monotonic()
    if options.stage == "time" and options.gpu is None:
        options = replace(options, gpu=present_gpu_name())
    boundary = found_boundary(is_unsafe=options.is_unsafe)
    seed = secrets.randbelow(1 << 31) if options.seed is None else options.seed
    try:
        submitted = read_submission(path)
    except RefusedError as error:
        return refusal(str(path), str(error), seconds=time.monotonic() - begun_s)
    if submitted.path.suffix == ".py":
        answer = _judge_python(submitted, options, boundary, seed=seed)
        answer = replace(answer, sha256=submitted.sha256, sandbox=boundary.kind, seed=seed)
        return replace(answer, seconds=time.monotonic() - begun_s)
    subject = _subject(submitted, options, seed=seed, db=db)
    confinement = Confinement(boundary, options.timeout_s, is_brief=True)
    report = check_kernel(subject, runs=1, seed=seed, confinement=confinement)
    answer = _answer(submitted, subject, report, options)
    answer = replace(answer, sandbox=boundary.kind, seed=seed)
    if answer.is_correct and options.stage == "time":
        answer = _with_time(answer, submitted, path, options, seed=seed, db=db)
    return replace(answer, seconds=time.monotonic() - begun_s)


def _judge_python(
    submitted: SubmittedText, options: JudgeOptions, boundary: Boundary, *, seed: int
) -> KernelAnswer:
    """Called on the GPU and timed, where that is asked for and there is one; else called on the host."""
    gpu, deadline_s = options.gpu, time.monotonic() + options.timeout_s
    is_here = options.stage == "time" and gpu is not None and gpu == present_gpu_name()
    answer, wanted, read = judge_python(
        submitted,
        boundary,
        problem=options.problem,
        device="cuda" if is_here else "cpu",
        is_first_look=options.stage == "check",
        seed=seed,
        deadline_s=deadline_s,
    )
    answer = replace(answer, gpu=gpu)
    if not answer.is_correct or options.stage != "time":
        return answer
    if not is_here or gpu is None:
        return replace(answer, notes=("no GPU here: no time, and no check on one.",))
    if len(wanted.workloads) > 1:
        return replace(answer, notes=("not timed: name one workload by --problem.",))
    (workload,) = wanted.workloads
    if why := why_not_timed(workload):
        return replace(answer, notes=(f"not timed: {why}.",))
    try:
        timing = time_python(
            submitted.text, read, boundary, workload=workload, seed=seed, deadline_s=deadline_s
        )
    except PythonCallError as error:
        return replace(answer, status=error.status, reason=str(error))
    floor = floor_us(workload, load_gpu(gpu), timing.protocol)
    return replace(answer, timing=timing, floor_us=floor, basis="measured", rung="done")


def _subject(submitted: SubmittedText, options: JudgeOptions, *, seed: int, db: str) -> KernelUnderTest:
    """The kernel with its shapes, and, but for a first look, with others that were drawn."""
    with tempfile.TemporaryDirectory(prefix="evoflash-") as folder:
        path = submitted.path
        if submitted.shown != str(path):  # an entry of a JSON file
            path = Path(folder) / Path(path).name
            path.write_text(submitted.text, encoding="utf-8")
        (subject, *others) = named_kernels(
            str(path), None, [], problem=options.problem, gpu=options.gpu, db=db, header=options.header
        )
        if others:
            raise UsageError(f"{submitted.shown} stands for several kernels: name one workload by --problem.")
        hidden = (
            ()
            if options.stage == "check"
            else hidden_runs(path, options.problem, seed=seed, header=options.header)
        )
    return replace(subject, path=Path(submitted.shown), planned=(*subject.planned, *hidden))


def _answer(
    submitted: SubmittedText, subject: KernelUnderTest, report: CheckReport, options: JudgeOptions
) -> KernelAnswer:
    lines = subject.shown.splitlines()
    status, reason = _status(report)
    judged = [record for record in report.runs if record.rel_l2 is not None]
    worst = max(judged, key=lambda record: record.rel_l2 or 0.0, default=None)
    return KernelAnswer(
        file=submitted.shown,
        sha256=submitted.sha256,
        status=status,
        reason=reason,
        rung="compile" if status == "compile_error" else "preflight",
        problem=options.problem or subject.problem or None,
        gpu=subject.gpu.name if subject.gpu else None,
        findings=tuple(finding.as_dict(lines) for finding in report.findings),
        worst={"shape": worst.case, "rel_l2": worst.rel_l2} if worst else None,
        checks=len(judged),
        notes=(*report.notes, *report.coverage.left_open),
    )


def _status(report: CheckReport) -> tuple[AnswerStatus, str]:
    """The one word for all findings, and the line that says why."""
    errors = [finding for finding in report.findings if finding.severity == "error"]
    if not errors:
        return _status_without_errors(report)
    status, finding = min(((_status_of(each), each) for each in errors), key=lambda it: _ORDER.index(it[0]))
    more = f" (and {count_of(len(errors) - 1, 'other error')})" if len(errors) > 1 else ""
    place = f"line {finding.line}: " if finding.line else ""
    return status, f"{place}{finding.kind}: {finding.message}{more}"


def _status_without_errors(report: CheckReport) -> tuple[AnswerStatus, str]:
    if any(finding.kind in ("schedule-dependent", "unwritten-output") for finding in report.findings):
        (first, *_) = (f for f in report.findings if f.kind in ("schedule-dependent", "unwritten-output"))
        return "incorrect", f"{first.kind}: {first.message}"
    if any(record.rel_l2 is not None for record in report.runs):
        return "correct", ""
    if not report.runs:
        return "timeout", "no run was made in the time that there is"
    if report.coverage.compared:
        return "refused", (
            "no error was found, but nothing says what its numbers should be: name a problem in its comment, "
            'as in attention = { problem = "mission" }'
        )
    return "incorrect", "it changed no output, so nothing was compared"


# What says more about a kernel comes first.
_ORDER: Sequence[AnswerStatus] = (
    *("compile_error", "hack", "refused", "timeout", "runtime_error", "incorrect", "correct"),
)


def _status_of(finding: Finding) -> AnswerStatus:
    kind = finding.kind
    if kind in ("compile", "nvrtc"):
        return "compile_error"
    if kind == "kept-state":
        return "hack"
    if kind in ("unseen", "emulator-limit"):
        return "refused"
    if kind in _ENDLESS:
        return "timeout"
    if kind in _BROKEN or kind.startswith(_OUT_OF_PLACE):
        return "runtime_error"
    return "incorrect"


def _with_time(
    answer: KernelAnswer,
    submitted: SubmittedText,
    path: Path,
    options: JudgeOptions,
    *,
    seed: int,
    db: str,
) -> KernelAnswer:
    """With its time, where the GPU is here; what is wrong on the GPU is wrong."""
    if answer.gpu is None or answer.gpu != present_gpu_name():
        return replace(answer, notes=(*answer.notes, "no GPU here: no time, and no check on one."))
    if options.header is not None:
        said = "not timed: how it is launched has to stand in the file itself."
        return replace(answer, notes=(*answer.notes, said))
    if submitted.shown != str(path):
        return replace(answer, notes=(*answer.notes, "a solution's kernel is not timed: submit its .cu."))
    try:
        found: Any = time_beside_baseline(path, problem=str(answer.problem), seed=seed, db=db)
    except NotTimedError as error:
        status: AnswerStatus = "incorrect" if error.is_wrong else "correct"
        notes = (*answer.notes, f"not timed: {error}")
        return replace(answer, status=status, reason=str(error) if error.is_wrong else "", notes=notes)
    timing, floor_us, gpu = found
    return replace(answer, timing=timing, floor_us=floor_us, gpu=gpu, basis="measured", rung="done")


class NotTimedError(Exception):
    """There is no time; `is_wrong` where the kernel failed on the GPU, or the process with it."""

    def __init__(self, words: str, *, is_wrong: bool = False) -> None:
        self.is_wrong = is_wrong
        super().__init__(words)


def present_gpu_name() -> str | None:
    """That of this machine's GPU, if it has one that evoflash knows."""
    try:
        return launcher.present_spec(None).name
    except DeviceError:
        return None


def time_beside_baseline(path: Path, *, problem: str, seed: int, db: str) -> tuple[AnswerTiming, float, str]:
    """Its time beside the first baseline that runs here, the floor in us, and the GPU. NotTimedError."""
    said = ""
    for name in baselines.computing(parse_problem(problem).operation, baselines.DEFAULT):
        try:
            run, outcome = compare_by_name(str(path), name, problem=problem, seed=seed, db=db)
        except ComparisonFailedError as error:
            said = str(error)
            if not error.blamed.startswith(name):  # else the library's fault: the next one may run
                raise NotTimedError(said, is_wrong=not error.is_noise) from None
        except EvoflashError as error:  # no library of that name for this problem
            said = str(error)
        else:
            timing = _timing(run, outcome.results, name)
            floors = [floor_us(each, run.spec, timing.protocol) for each in run.problem.workloads]
            return timing, geometric_mean(floors), run.spec.name
    raise NotTimedError(said or "no library has a kernel for it here")


def floor_us(workload: Workload, gpu: GpuSpec, protocol: str) -> float:
    """What its bytes and operations take at least. A cold call finds nothing of its inputs in L2: they come
    from memory, however little they are.
    """
    floor = gpu.floor_us(workload.flops, workload.bytes_moved)
    if protocol != "cold":
        return floor
    tensors = operation_of(workload).tensors(workload)
    read = sum(math.prod(each.shape) * ELEMENT_BYTES[each.dtype] for each in tensors if each.role == "input")
    return max(floor, min(read, workload.bytes_moved) / (gpu.dram_gbps * 1e3))


def _timing(run: ComparisonRun, results: tuple[PairResult, ...], name: str) -> AnswerTiming:
    """Of the protocol that the first workload was timed by first: cold where it is short."""
    chosen = [result for result in results if result.protocol == results[0].protocol]
    compared = [result.comparison for result in chosen]
    low, ratio, high = (
        geometric_mean([getattr(each, which) for each in compared]) for which in ("low", "ratio", "high")
    )
    answer = answer_of(low, high, noise=run.noise)
    own, theirs = ([result.timings[which] for result in chosen] for which in (0, 1))
    return AnswerTiming(
        median_us=geometric_mean([timing.median_us for timing in own]),
        p10_us=own[0].p10_us if len(own) == 1 else None,
        p90_us=own[0].p90_us if len(own) == 1 else None,
        samples=sum(timing.n for timing in own),
        protocol=results[0].protocol,
        clock_mhz=own[0].sm_clock_mhz,
        baseline=name,
        baseline_us=geometric_mean([timing.median_us for timing in theirs]),
        ratio=1 / ratio,
        ratio_ci95=(1 / high, 1 / low),
        verdict="tie" if answer == "unclear" else "faster" if answer == "faster" else "slower",
    )
