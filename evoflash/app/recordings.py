"""Writes a database's outcomes as a recorded space, and compares strategies on such spaces.

The file's format is that of replay/kernel_tuner.py. Evaluates no kernel.
"""

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evoflash.app.runs import find_run
from evoflash.errors import NoKernelError, UsageError
from evoflash.evaluation import Basis, Evaluation, Run
from evoflash.extensions import made_with
from evoflash.extras import install
from evoflash.gpu.timing.noise_floor import environment
from evoflash.kernels.family import load_family
from evoflash.notices import count_of, say, working
from evoflash.paths import MUTATIONS
from evoflash.problem import canonical, parse_problem
from evoflash.replay.comparison import WINDOW_START, StrategyComparison, compare, parse_strategies
from evoflash.replay.kernel_tuner import read_recording, shipped_spaces, write_recording
from evoflash.replay.recorded_space import RecordedOutcome, Recording, recorded_space
from evoflash.specs import canonical_gpu, load_gpu
from evoflash.store.store import Store, open_store
from evoflash.version import __version__

if TYPE_CHECKING:
    from evoflash.replay.benchmark import Space


def record(
    db: str,
    path: Path,
    *,
    problem: str | None = None,
    gpu: str | None = None,
    run: str | None = None,
    family: str | None = None,
    estimated: bool = False,
) -> Recording:
    """Write the store's measurements (or estimates) of a problem on a GPU as a cache file, and return them.

    With `run`, a number or a name, it is what that run alone found out. A file holds one family. UsageError
    where neither a run nor both problem and GPU are given, and where there are several families and `family`
    does not say which; NoKernelError where the store has nothing of that basis.
    """
    basis = Basis.ESTIMATED if estimated else Basis.MEASURED
    with open_store(db, read_only=True) as store:
        only = find_run(store, run, problem=canonical(problem), gpu=canonical_gpu(gpu)) if run else None
        if only is not None:
            problem, gpu = only.key.problem, only.key.gpu
        if problem is None or gpu is None:
            raise UsageError("say what is recorded: give --problem and --gpu, or --run.")
        with working(f"reading the outcomes of {problem} on {gpu}"):
            recording = to_recording(store, problem=problem, gpu=gpu, family=family, basis=basis, run=only)
    write_recording(path, recording)
    return recording


def to_recording(
    store: Store, *, problem: str, gpu: str, family: str | None, basis: Basis, run: Run | None = None
) -> Recording:
    """The store's outcomes for a problem and a GPU, or one run's, as a recording; errors as `record`."""
    what, spec = parse_problem(problem), load_gpu(gpu)
    evaluations = _evaluations(store, str(what), spec.name, basis, run)
    if not evaluations:
        raise NoKernelError(
            f"nothing {basis.value} for {what} on {spec.name} in the database: run `evoflash search` first"
            + (", or add --estimated." if basis is Basis.MEASURED else ".")
        )
    name = _family_of(evaluations, family)
    space = load_family(name).space(what.compile_keys(spec.arch), spec)
    outcomes = {e.genome: _outcome(e) for e in evaluations if space.has_point(e.genome)}
    first = what.workloads[0]
    return Recording(
        recorded_space(name, space.params, outcomes, version=space.version),
        str(what),
        spec.name,
        basis,
        first.extents,
        notes=_made_with(store, str(what), spec.name, basis),
        model_version=_model_of(evaluations),
    )


def _evaluations(store: Store, problem: str, gpu: str, basis: Basis, only: Run | None) -> list[Evaluation]:
    # The newest outcome of each genome. Runs under another description of the GPU are left out.
    every = store.runs() if only is None else [only]
    runs = [run for run in every if _where(run) == (problem, gpu, basis)]
    alike = [run for run in runs if run.gpu_hash == runs[0].gpu_hash]
    outcomes = {e.genome: e for run in reversed(alike) for _, e in store.history(run)}
    return list(outcomes.values())


def _made_with(store: Store, problem: str, gpu: str, basis: Basis) -> dict[str, str]:
    """What the runs were made with; where they differ, each of it."""
    found: dict[str, dict[str, None]] = {}
    for run in store.runs():
        if _where(run) == (problem, gpu, basis):
            for name, words in run.made_with.items():
                found.setdefault(name, {})[words] = None
    return {name: " | ".join(words) for name, words in found.items()}


def _model_of(evaluations: Sequence[Evaluation]) -> str:
    """The performance models that the times come from, in words; empty where they were measured."""
    return ", ".join(sorted({e.model_version for e in evaluations if e.model_version}))


def _where(run: Run) -> tuple[str, str, Basis]:
    return run.key.problem, run.key.gpu, run.key.basis


def _family_of(evaluations: Sequence[Evaluation], family: str | None) -> str:
    names = sorted({evaluation.genome.family for evaluation in evaluations})
    if family is None and len(names) > 1:
        raise UsageError(f"the database has {', '.join(names)} there, a file one: choose with --family.")
    if family is not None and family not in names:
        raise UsageError(f"the database has no {family} there: it has {', '.join(names)}.")
    return family or names[0]


def _outcome(evaluation: Evaluation) -> RecordedOutcome:
    return RecordedOutcome(
        evaluation.status,
        evaluation.rung,
        evaluation.reason,
        evaluation.learnt_us,
        is_lower_bound=evaluation.is_censored,
        compile_s=sum(build.compile_s for build in evaluation.builds),
    )


def recording_of(file: Path) -> Recording:
    """The recorded space of a file; what is to be known of how it was read is said."""
    recording = read_recording(file)
    for remark in recording.remarks:
        say(f"{file.name}: {remark}")
    return recording


def compare_strategies(
    file: Path, strategies: str, *, budget: int, repeats: int, seed: int, ahead: int
) -> StrategyComparison:
    """Strategies, by their names with commas between or `all`, on the recorded space of a file."""
    names, recording = parse_strategies(strategies), recording_of(file)
    runs = f"{count_of(len(names), 'strategy')}, {repeats} runs of {budget} evaluations each"
    with working(f"replaying {file.name}: {runs}"):
        found = compare(recording, names, budget=budget, repeats=repeats, seed=seed, ahead=ahead)
    return replace(found, made_with=made_with(MUTATIONS))


@dataclass(frozen=True, slots=True)
class Provenance:
    """How a benchmark was made."""

    command: str
    date: str
    version: str
    seeds: int
    first_seed: int
    reference: str
    machine: dict[str, str]


def provenance(argv: Sequence[str], *, seeds: int, first_seed: int, reference: str) -> Provenance:
    """How the benchmark of this process was made."""
    command = f"evoflash {shlex.join(argv)}"
    today = date.today().isoformat()
    return Provenance(command, today, __version__, seeds, first_seed, reference, environment())


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What strategies and rivals came to on several recorded spaces."""

    spaces: "tuple[Space, ...]"
    how: Provenance

    @property
    def budget(self) -> int:
        """The most evaluations of a run."""
        return max(space.budget for space in self.spaces)

    @property
    def window_start(self) -> int:
        """The evaluation from which on the score P is a mean."""
        return min(WINDOW_START, self.budget)

    @property
    def overall(self) -> list[tuple[str, float]]:
        """Each contender's mean P over the spaces, best first; of those that ran on all of them."""
        found: dict[str, list[float]] = {}
        for space in self.spaces:
            for row in space.rows:
                found.setdefault(row.name, []).append(row.standing.score)
        means = [(name, sum(p) / len(p)) for name, p in found.items() if len(p) == len(self.spaces)]
        return sorted(means, key=lambda each: -each[1])

    def as_dict(self) -> dict[str, Any]:
        """P of each seed in `scores`, quartiles of best over optimum after each evaluation."""
        tables = [asdict(space) for space in self.spaces]
        for table in tables:
            table["expected"] = [round(value, 5) for value in table["expected"]]
            for row in table["rows"]:
                row["scores"] = [round(score, 4) for score in row["scores"]]
                row["quartiles"] = [[round(value, 5) for value in each] for each in row["quartiles"]]
        return {**asdict(self.how), "spaces": tables}


def run_benchmark(
    files: Sequence[Path],
    strategies: str,
    *,
    seeds: int,
    first_seed: int,
    budget: int,
    reference: str,
    jobs: int | None,
    argv: Sequence[str],
) -> Iterator[Benchmark]:
    """Contenders on recorded spaces (without files on two that are shipped), after each space what there is
    so far. UsageError where the reference cannot run.
    """
    from evoflash.replay.benchmark import benchmark  # loads Optuna, which nothing else here needs

    names = _runnable(strategies, reference)
    how = provenance(argv, seeds=seeds, first_seed=first_seed, reference=reference)
    spaces: list[Space] = []
    with working(f"{count_of(len(names), 'strategy')}, {seeds} runs each, space after space"):
        for space in benchmark(
            tuple(files or shipped_spaces()),
            names,
            budget=budget,
            seeds=range(first_seed, first_seed + seeds),
            reference=reference,
            jobs=jobs or len(os.sched_getaffinity(0)),
            done=say,
        ):
            spaces.append(space)
            yield Benchmark(tuple(spaces), how)


def _runnable(strategies: str, reference: str) -> tuple[str, ...]:
    """The contenders whose packages are here, the reference among them; UsageError where none is."""
    from evoflash.replay.benchmark import contenders, missing_package

    wanted = contenders(f"{strategies},{reference}")
    missing = {missing_package(name) for name in wanted} - {""}
    for package in sorted(missing):
        say(f"{package} is not installed, its strategies are left out: {install('benchmarks')}.")
    if all(missing_package(name) for name in contenders(strategies)):
        raise UsageError(
            f"of --strategies {strategies} none can run without its package: {install('benchmarks')}, or "
            "choose others."
        )
    if missing_package(reference):
        raise UsageError(f"--reference {reference} cannot run without its package: choose another.")
    return tuple(name for name in wanted if not missing_package(name))
