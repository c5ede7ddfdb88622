"""Decides which of two kernels is faster on this GPU, or that it is unclear. Prints no result.

Each kernel is a candidate of the database, a library's or a .cu file. Both are compiled, then checked, timed
in pairs by every protocol and checked again, all in a GPU process of its own.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from evoflash import operation as registry
from evoflash.app.check import subject as check_subject
from evoflash.app.check.own_kernel import read_kernel_file
from evoflash.app.check.subject import KernelUnderTest, edits_in, genome_in, is_exported
from evoflash.app.kernel_lookup import known_genome, stored_evaluations
from evoflash.errors import DeviceError, EvoflashError, UsageError
from evoflash.estimate_error import has_order
from evoflash.evaluation import Build, Evaluation, Status, Timing
from evoflash.evaluators.prepare import prepare
from evoflash.gpu import baselines, launcher
from evoflash.gpu.arena import MemoryFaultError
from evoflash.gpu.baselines import BaselineAbsentError, BaselineFailedError, LibraryContender, baseline
from evoflash.gpu.launcher import GpuBusyError, KernelHungError, LaunchRefusedError
from evoflash.gpu.process.judged_replays import judge_replay
from evoflash.gpu.process.rungs import GpuTask, Launcher, check_task, task_of
from evoflash.gpu.timing import noise_floor as noise
from evoflash.gpu.timing.benchmark import Bench, KernelContender, can_be_timed
from evoflash.gpu.timing.paired import (
    MINIMAL_EFFECT,
    PREFIX,
    PairedComparison,
    SequentialTest,
    beats_physics,
    run_sequential_test,
)
from evoflash.gpu.timing.protocols import CALL, Pace, TimingProtocol
from evoflash.isolation import IsolatedPool, raise_if_of_machine
from evoflash.kernels.family import load_family
from evoflash.kernels.nvrtc import compile_candidate, first_error
from evoflash.kernels.plain_cuda import symbol_in
from evoflash.kernels.standalone import export_words, genome_of_words
from evoflash.launch import LaunchConfig
from evoflash.notices import say, working
from evoflash.problem import Problem, canonical, parse_problem
from evoflash.space import Genome
from evoflash.specs import GpuSpec
from evoflash.workload import Workload

_GENOME_ID = re.compile(r"[0-9a-f]{1,16}")


@dataclass(frozen=True, slots=True)
class ComparedKernel:
    """What the GPU process needs of one of the two kernels. Without a task it is a library's, by its name."""

    name: str
    task: GpuTask | None = None


@dataclass(frozen=True, slots=True)
class _Meaning:
    """What a word stands for, before it is known on which problem."""

    problem: str  # what the kernel was made for; empty where it is for any problem
    contender: Callable[[Problem], ComparedKernel]


def contenders(
    words: Sequence[str], *, problem: str | None, spec: GpuSpec, db: str, seed: int
) -> tuple[Problem, tuple[ComparedKernel, ...]]:
    """What the words stand for, on the problem given or on the one that they agree on.

    UsageError for a word that stands for nothing, and where the problem is not clear; EvoflashError for a
    kernel that does not compile for this GPU.
    """
    meanings = [_look_up(word, problem=problem, spec=spec, db=db, seed=seed) for word in words]
    known = list(dict.fromkeys(str(parse_problem(m.problem)) for m in meanings if m.problem))
    if problem is None and len(known) != 1:
        said = f"they were made for {' and '.join(known)}" if known else "nothing says for which problem"
        raise UsageError(f"{said}: say on which to compare them with --problem.")
    what = parse_problem(problem or known[0])
    return what, _by_distinct_names([meaning.contender(what) for meaning in meanings])


def _by_distinct_names(made: Sequence[ComparedKernel]) -> tuple[ComparedKernel, ...]:
    """A kernel may be compared with itself: the two are then numbered."""
    names = [contender.name for contender in made]
    return tuple(
        replace(contender, name=f"{contender.name} ({at + 1})")
        if names.count(contender.name) > 1
        else contender
        for at, contender in enumerate(made)
    )


def _look_up(word: str, *, problem: str | None, spec: GpuSpec, db: str, seed: int) -> _Meaning:
    if word in baselines.NAMES:
        return _Meaning("", lambda _: ComparedKernel(word))
    path = Path(word)
    if path.exists() or path.suffix == ".cu":
        return _in_file(path, spec=spec, seed=seed)
    if not _GENOME_ID.fullmatch(word):
        raise UsageError(
            f"'{word}' is no .cu file, no candidate's id and no baseline: baselines are "
            f"{', '.join(baselines.NAMES)}; `evoflash leaderboard` has the ids."
        )
    genome, what, _ = known_genome(word, db, problem=problem, gpu=spec.name)
    return _of_genome(genome, str(what), genome.id, spec=spec, seed=seed)


def _in_file(path: Path, *, spec: GpuSpec, seed: int) -> _Meaning:
    """A file that `evoflash export` wrote is rendered again from its banner, as for `check`; an edited
    kernel is compiled as it stands, and launched as the banner says.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"{path} cannot be read: give a .cu file, a candidate's id or a baseline.") from None
    if not is_exported(path, text):
        return _own(path, text, spec=spec, seed=seed)
    if edits_in(path, text):
        return _edited_export(path, text, spec=spec, seed=seed)
    genome, problem, _ = genome_in(path, text)
    return _of_genome(genome, str(problem), str(path), spec=spec, seed=seed)


def _of_genome(genome: Genome, problem: str, name: str, *, spec: GpuSpec, seed: int) -> _Meaning:
    family = load_family(genome.family)

    def contender(what: Problem) -> ComparedKernel:
        prepared = prepare(genome, what, spec, False, seed)
        if prepared.failure:
            reason = f"{prepared.failure.status}, {prepared.failure.reason}"
            raise EvoflashError(f"{name} is no kernel for {what} on {spec.name} ({reason}): choose another.")
        task = gpu_task(name, what, prepared.builds, lambda w: family.launches(genome, w, spec), spec, seed)
        return ComparedKernel(name, replace(task, is_deterministic=family.is_deterministic))

    return _Meaning(problem, contender)


def _edited_export(path: Path, text: str, *, spec: GpuSpec, seed: int) -> _Meaning:
    words = export_words(text, path)
    assert words is not None, "it is exported"
    genome, problem, _ = genome_of_words(words)
    family = load_family(genome.family)

    def contender(what: Problem) -> ComparedKernel:
        (subject,) = check_subject.of_export(path, problem=str(what), gpu=spec.name)
        build = _compile(subject, path)
        task = gpu_task(str(path), what, (build,), lambda w: family.launches(genome, w, spec), spec, seed)
        return ComparedKernel(str(path), replace(task, is_deterministic=family.is_deterministic))

    return _Meaning(str(problem), contender)


def _compile(subject: KernelUnderTest, path: Path) -> Build:
    assert subject.candidate is not None, "a GPU was named"
    build = compile_candidate(subject.candidate)
    if not build.ok:
        raise EvoflashError(f"{path} does not compile: {first_error(build.log)}")
    return build


def _own(path: Path, text: str, *, spec: GpuSpec, seed: int) -> _Meaning:
    kernel = read_kernel_file(path, text)
    if kernel.loop is None or kernel.arguments_on is not None:
        raise UsageError(
            f"{path} has arguments of its own: only kernels with evoflash's "
            "arguments can be compared (`attention = {}`, docs/check.md)."
        )

    def contender(what: Problem) -> ComparedKernel:
        (subject,) = check_subject.of_file(path, problem=str(what), gpu=spec.name)
        build = _compile(subject, path)
        symbols = [symbol_in(Path(build.cubin_path), each.entry) for each in kernel.written]

        def launches(workload: Workload) -> tuple[LaunchConfig, ...]:
            made = zip(kernel.launches(workload), symbols, strict=True)
            return tuple(replace(launch, entry=symbol) for launch, symbol in made)

        task = gpu_task(str(path), what, (build,), launches, spec, seed)
        return ComparedKernel(str(path), task)

    return _Meaning(kernel.problem, contender)


def gpu_task(
    name: str, problem: Problem, builds: Sequence[Build], launches: Launcher, spec: GpuSpec, seed: int
) -> GpuTask:
    """What the GPU process needs to check a kernel on every shape and to time it on the problem's."""
    checks = registry.load(problem.operation).check_workloads(problem.compile_keys(spec.arch))
    return task_of(name, spec, builds, launches, checks=checks, timed=problem.workloads, seed=seed)


OnDevice = KernelContender | LibraryContender  # a contender as a bench times it


@dataclass(frozen=True, slots=True)
class ComparisonRun:
    """What is to be compared: two contenders, on every workload of a problem."""

    contenders: tuple[ComparedKernel, ...]
    problem: Problem
    spec: GpuSpec
    seed: int
    noise: float = MINIMAL_EFFECT


@dataclass(frozen=True, slots=True)
class PairResult:
    """One workload timed by one protocol: the first contender over the second, and the times of both."""

    comparison: PairedComparison
    timings: tuple[Timing, Timing]

    @property
    def protocol(self) -> str:
        """How it was timed: cold, hot, call, ..."""
        return self.comparison.protocol.removeprefix(PREFIX)

    def as_dict(self) -> dict[str, Any]:
        """The ratio with its interval, the answer, and both kernels' times under `first` and `second`."""
        row = asdict(self.comparison) | {"answer": self.comparison.answer}
        names = ("median_us", "p10_us", "p90_us", "n", "sm_clock_mhz", "throttle")
        for which, timing in zip(("first", "second"), self.timings, strict=True):
            del row[which]
            row[which] = {name: getattr(timing, name) for name in names}
        return row


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """All results, or the failure that ended the comparison, as ComparisonFailedError tells of it; the notes
    say what was left out.
    """

    results: tuple[PairResult, ...] = ()
    failure: str = ""
    notes: tuple[str, ...] = ()
    blamed: str = ""
    is_noise: bool = False


def as_dict(run: ComparisonRun, outcome: ComparisonResult) -> dict[str, Any]:
    """Times in us; the ratio is the first kernel's time over the second's."""
    first, second = (contender.name for contender in run.contenders)
    return {
        "problem": str(run.problem),
        "gpu": run.spec.name,
        "first": first,
        "second": second,
        "results": [result.as_dict() for result in outcome.results],
        "notes": list(outcome.notes),
    }


class ComparisonFailedError(EvoflashError):
    """Two kernels cannot be compared; the message says why.

    `blamed` is the name of the one that failed, empty where that cannot be told; `is_noise` where a busy GPU
    let no time be judged, which is no kernel's fault.
    """

    def __init__(self, said: str, *, blamed: str = "", is_noise: bool = False) -> None:
        self.blamed, self.is_noise = blamed, is_noise
        super().__init__(said)


def compare_kernels(run: ComparisonRun) -> ComparisonResult:
    """Check both, time them in pairs, and check what was timed; to be called in a GPU process."""
    try:
        for contender in run.contenders:
            _check(contender)
        tests = [test for workload in run.problem.workloads for test in _time_on(workload, run)]
    except ComparisonFailedError as failed:
        return ComparisonResult(failure=str(failed), blamed=failed.blamed, is_noise=failed.is_noise)
    except (BaselineAbsentError, BaselineFailedError) as failed:
        return ComparisonResult(failure=str(failed), blamed=_library_of(run))
    except MemoryFaultError as failed:
        return ComparisonResult(failure=str(failed))
    except (KernelHungError, LaunchRefusedError) as failed:
        return ComparisonResult(failure=f"a kernel {failed}")
    except launcher.cuda_errors() as error:
        return ComparisonResult(failure=str(error).strip().splitlines()[0])
    results = tuple(PairResult(test.comparison, test.timings) for test in tests)
    return ComparisonResult(results, notes=_notes(results, run))


def _check(contender: ComparedKernel) -> None:
    """Smoke test, small and odd shapes, the problem's own. A baseline is checked only as it was timed."""
    if contender.task is None:
        return
    outcome = check_task(contender.task)
    if outcome.status is not Status.CORRECT:
        said = f"{contender.name} fails at {outcome.rung} ({outcome.status}): {outcome.reason}"
        raise ComparisonFailedError(said, blamed=contender.name)


def _library_of(run: ComparisonRun) -> str:
    """The name of the one that is a library's, where only one is."""
    libraries = [contender.name for contender in run.contenders if contender.task is None]
    return libraries[0] if len(libraries) == 1 else ""


def _time_on(workload: Workload, run: ComparisonRun) -> list[SequentialTest]:
    bench = Bench(workload, spec=run.spec, seed=run.seed)
    both = [_on_device(contender, bench) for contender in run.contenders]
    rng = np.random.default_rng(run.seed)
    tests = [
        run_sequential_test(both[0], both[1], bench, protocol, rng=rng, noise=run.noise)
        for protocol in protocols(bench)
        if all(can_be_timed(contender, protocol) for contender in both)
    ]
    for which, contender in enumerate(both):
        _check_timed_output(contender, bench, [test.timings[which] for test in tests], run)
    return tests


def protocols(bench: Bench) -> tuple[TimingProtocol, ...]:
    """As the finals time it, and by single calls where the host's share of the time can be seen."""
    return (*bench.protocols, CALL) if bench.protocols[0].pace is Pace.STEADY else bench.protocols


def _on_device(contender: ComparedKernel, bench: Bench) -> OnDevice:
    if contender.task is None:
        try:
            return baseline(contender.name.partition(" (")[0], bench)
        except BaselineAbsentError as reason:
            said = f"{contender.name} cannot be timed on {bench.workload}: {reason}"
            raise ComparisonFailedError(said, blamed=contender.name) from None
    launches = dict(contender.task.timed)[bench.workload]
    return KernelContender(contender.name, contender.task.kernel(bench.workload, launches))


def _check_timed_output(timed: OnDevice, bench: Bench, timings: list[Timing], run: ComparisonRun) -> None:
    for timing in timings:
        if violation := beats_physics(timing, bench.workload, run.spec):
            raise ComparisonFailedError(f"{timed.name}: {violation}", blamed=timed.name)
    try:
        verdict = judge_replay(timed, bench, seed=run.seed, timed_us=timings[0].median_us)
    except GpuBusyError as busy:
        raise ComparisonFailedError(f"{timed.name}: {busy}", is_noise=True) from None
    if not verdict.passed:
        said = f"{timed.name} is wrong as it was timed: {verdict.reason}"
        raise ComparisonFailedError(said, blamed=timed.name)


def _notes(results: tuple[PairResult, ...], run: ComparisonRun) -> tuple[str, ...]:
    protocols = {result.comparison.protocol for result in results}
    short = any(protocol.endswith("-cold") for protocol in protocols)
    if not short or any(protocol.endswith("-call") for protocol in protocols):
        return ()
    libraries = [contender.name for contender in run.contenders if contender.task is None]
    return (f"no single calls: {' and '.join(libraries)} can only be timed as a graph",)


_LIMIT_S = 900.0


def compare_by_name(
    first: str, second: str, *, problem: str | None, seed: int, db: str
) -> tuple[ComparisonRun, ComparisonResult]:
    """Both kernels checked, then timed in pairs on this machine's GPU.

    DeviceError without a GPU, UsageError for a word that names no kernel, EvoflashError where one of them
    is not correct.
    """
    try:
        spec = launcher.present_spec(None)
    except DeviceError as error:
        raise DeviceError(f"{error}{_estimates_in_words((first, second), problem, db)}") from None
    with working("compiling both kernels"):
        what, made = contenders((first, second), problem=problem, spec=spec, db=db, seed=seed)
    run = ComparisonRun(made, what, spec, seed, noise=noise.floor())
    say(f"checking both, then timing them in pairs on {what}")
    outcome = _in_gpu_process(run)
    if outcome.failure:
        said = f"no comparison: {outcome.failure}; `evoflash check` looks into a kernel."
        raise ComparisonFailedError(said, blamed=outcome.blamed, is_noise=outcome.is_noise)
    return run, outcome


def _estimates_in_words(words: Sequence[str], problem: str | None, db: str) -> str:
    """What the model said of both kernels where they were estimated for one problem and GPU; else nothing.

    It goes on from a line that ends in a full stop.
    """
    if not all(map(_GENOME_ID.fullmatch, words)):
        return ""
    both = [_estimates(word, canonical(problem), db) for word in words]
    for place in both[0].keys() & both[1].keys():
        first_us, second_us = (found[place].score_us or 0.0 for found in both)
        fastest = min((found[place] for found in both), key=lambda each: each.score_us or 0.0)
        between = f" For {place[1]} the model estimates ~{first_us:.2f} us and ~{second_us:.2f} us"
        if has_order([first_us, second_us], fastest.genome.family):
            return f"{between}, which is farther apart than its error but no measurement."
        return f"{between}: nearer than its error, so that it cannot order them."
    return ""


def _estimates(word: str, problem: str | None, db: str) -> dict[tuple[str, str], Evaluation]:
    """By problem and GPU."""
    return {
        (each.problem, each.gpu): each
        for each in stored_evaluations(word, db)
        if each.is_estimate and each.is_correct and each.score_us and problem in (None, each.problem)
    }


def _in_gpu_process(run: ComparisonRun) -> ComparisonResult:
    """The outcome, from a process of its own: a kernel that crashes or hangs there ends in one line here."""
    with IsolatedPool(1, initializer=launcher.warm_up) as pool:
        ending = pool.submit(compare_kernels, run, timeout_s=_LIMIT_S).result()
    raise_if_of_machine(ending)
    return ending.value or ComparisonResult(failure=f"{ending.status}, {ending.reason}")
