"""Makes a recorded space of what a database knows of a problem. Searches nothing.

The file's format is that of replay/kernel_tuner.py.
"""

from collections.abc import Sequence
from pathlib import Path

from evoflash.errors import NoKernelError, UsageError
from evoflash.evaluation import Basis, Evaluation, Run
from evoflash.kernels.family import load_family
from evoflash.problem import parse_problem
from evoflash.replay.kernel_tuner import write_recording
from evoflash.replay.recorded_space import RecordedOutcome, Recording, recorded_space
from evoflash.space import Genome, SearchSpace
from evoflash.specs import load_gpu
from evoflash.store.store import Store, open_store


def record(
    db: str, path: Path, *, problem: str, gpu: str, family: str | None, estimated: bool = False
) -> Recording:
    """Write the store's measurements (or estimates) of a problem on a GPU as a cache file, and return them.

    A file holds one family. NoKernelError where the store has nothing of that basis; UsageError where it has
    several families and `family` does not say which.
    """
    basis = Basis.ESTIMATED if estimated else Basis.MEASURED
    with open_store(db, read_only=True) as store:
        recording = to_recording(store, problem=problem, gpu=gpu, family=family, basis=basis)
    write_recording(path, recording)
    return recording


def to_recording(store: Store, *, problem: str, gpu: str, family: str | None, basis: Basis) -> Recording:
    """The store's outcomes for a problem and a GPU as a recording; errors as `record`."""
    what, spec = parse_problem(problem), load_gpu(gpu)
    evaluations = _evaluations(store, str(what), spec.name, basis)
    if not evaluations:
        raise NoKernelError(
            f"nothing {basis.value} for {what} on {spec.name} in the database: run `evoflash search` first"
            + (", or add --estimated." if basis is Basis.MEASURED else ".")
        )
    name = _family_of(evaluations, family)
    space = load_family(name).space(what.compile_keys(spec.arch), spec)
    outcomes = {e.genome: _outcome(e) for e in evaluations if _fits(e.genome, space)}
    first = what.workloads[0]
    return Recording(
        recorded_space(name, space.params, outcomes, version=space.version),
        str(what),
        spec.name,
        basis,
        first.extents,
        model_version=_model_of(evaluations),
    )


def _evaluations(store: Store, problem: str, gpu: str, basis: Basis) -> list[Evaluation]:
    # The newest outcome of each genome. Runs under another description of the GPU are left out.
    runs = [run for run in store.runs() if _where(run) == (problem, gpu, basis)]
    alike = [run for run in runs if run.gpu_hash == runs[0].gpu_hash]
    outcomes = {e.genome: e for run in reversed(alike) for _, e in store.history(run)}
    return list(outcomes.values())


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


def _fits(genome: Genome, space: SearchSpace) -> bool:
    # Genomes of other families, and of older versions of this one, are no points of its space.
    try:
        return space.genome(genome.as_dict()) == genome
    except UsageError:
        return False


def _outcome(evaluation: Evaluation) -> RecordedOutcome:
    return RecordedOutcome(
        evaluation.status,
        evaluation.rung,
        evaluation.reason,
        evaluation.learnt_us,
        is_lower_bound=evaluation.is_censored,
        compile_s=sum(build.compile_s for build in evaluation.builds),
    )
