"""What is compared: a candidate of the database, a library's kernel or a .cu file, made ready for the GPU.

It compiles and launches nothing: run.py launches, in a GPU process.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evoflash import baselines
from evoflash.commands.check import subject as check_subject
from evoflash.commands.check.exported import genome_in, is_exported
from evoflash.commands.check.kernel_header import read_kernel_file
from evoflash.commands.known_genome import known_genome
from evoflash.compilers.nvrtc import compile_candidate, first_error
from evoflash.errors import EvoflashError, UsageError
from evoflash.evaluation import Build
from evoflash.evaluators.prepare import prepare
from evoflash.families.family import load_family
from evoflash.gpu import GpuSpec
from evoflash.gpu_process.rungs import GpuTask, Launcher, task_of
from evoflash.operation import registry
from evoflash.problem import Problem, parse_problem
from evoflash.space import Genome

_GENOME_ID = re.compile(r"[0-9a-f]{1,16}")


@dataclass(frozen=True, slots=True)
class Contender:
    """What the GPU process needs of one of the two kernels. Without a task it is a library's, by its name."""

    name: str
    task: GpuTask | None = None


@dataclass(frozen=True, slots=True)
class _Meaning:
    """What a word stands for, before it is known on which problem."""

    problem: str  # what the kernel was made for; empty where it is for any problem
    contender: Callable[[Problem], Contender]


def contenders(
    words: Sequence[str], *, problem: str | None, spec: GpuSpec, db: str, seed: int
) -> tuple[Problem, tuple[Contender, ...]]:
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


def _by_distinct_names(made: Sequence[Contender]) -> tuple[Contender, ...]:
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
        return _Meaning("", lambda _: Contender(word))
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
    """A file that `evoflash export` wrote is rendered again from its banner, as for `evoflash check`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"{path} cannot be read: give a .cu file, a candidate's id or a baseline.") from None
    if not is_exported(path, text):
        return _own(path, text, spec=spec, seed=seed)
    genome, problem, _ = genome_in(path, text)
    return _of_genome(genome, str(problem), str(path), spec=spec, seed=seed)


def _of_genome(genome: Genome, problem: str, name: str, *, spec: GpuSpec, seed: int) -> _Meaning:
    family = load_family(genome.family)

    def contender(what: Problem) -> Contender:
        prepared = prepare(genome, what, spec, False, seed)
        if prepared.failure:
            reason = f"{prepared.failure.status}, {prepared.failure.reason}"
            raise EvoflashError(f"{name} is no kernel for {what} on {spec.name} ({reason}): choose another.")
        task = gpu_task(name, what, prepared.builds, lambda w: family.launches(genome, w, spec), spec, seed)
        return Contender(name, replace(task, is_deterministic=family.is_deterministic))

    return _Meaning(problem, contender)


def _own(path: Path, text: str, *, spec: GpuSpec, seed: int) -> _Meaning:
    kernel = read_kernel_file(path, text)
    if kernel.loop is None:
        raise UsageError(
            f"{path} has arguments of its own, so nothing says what is right: only kernels with evoflash's "
            "attention arguments can be compared (`attention = {}`, docs/check.md)."
        )

    def contender(what: Problem) -> Contender:
        (subject,) = check_subject.of_file(path, problem=str(what), gpu=spec.name)
        assert subject.candidate is not None, "a GPU was named"
        build = compile_candidate(subject.candidate)
        if not build.ok:
            raise EvoflashError(f"{path} does not compile: {first_error(build.log)}")
        task = gpu_task(str(path), what, (build,), lambda w: (kernel.launch(w),), spec, seed)
        return Contender(str(path), task)

    return _Meaning(kernel.problem, contender)


def gpu_task(
    name: str, problem: Problem, builds: Sequence[Build], launches: Launcher, spec: GpuSpec, seed: int
) -> GpuTask:
    """What the GPU process needs to check a kernel on every shape and to time it on the problem's."""
    checks = registry.load(problem.operation).check_workloads(problem.compile_keys(spec.arch))
    return task_of(name, spec, builds, launches, checks=checks, timed=problem.workloads, seed=seed)
