"""Takes given genomes through every check to their times, and stores them as a run. Searches nothing.

A genome is given by its values in a family, by an id or by a file. `evoflash evaluate` takes one; `evoflash
remeasure` takes known ones that were estimated elsewhere to this machine's GPU. With the emulator alone a
genome is compiled for its GPU and checked, but not timed, estimated or stored.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evoflash.app.check.subject import genome_in, is_exported
from evoflash.app.kernel_lookup import installed_versions, known_genome
from evoflash.app.search.limits import Limits
from evoflash.app.search.plan import where
from evoflash.app.search.session import RunResult, counting, keep_pairs, result_of
from evoflash.errors import NoKernelError, UsageError
from evoflash.evaluation import Basis, Evaluation, Proposal, Run, Rung, RunKey, Status
from evoflash.evaluators.emulated import EmulatedEvaluator
from evoflash.evaluators.finals import time_finalists
from evoflash.evaluators.measured import MeasuredEvaluator
from evoflash.evaluators.pipeline import preparation_of
from evoflash.evaluators.prepare import PREPARE_LIMIT_S, prepare
from evoflash.gpu.timing.noise_floor import environment
from evoflash.isolation import IsolatedPool
from evoflash.kernels.family import load_family
from evoflash.kernels.renderer import check_unedited
from evoflash.kernels.standalone import setting, valid_genome
from evoflash.notices import count_of, say
from evoflash.problem import Problem, canonical, parse_problem
from evoflash.search import search
from evoflash.space import Genome, Value
from evoflash.specs import GpuSpec
from evoflash.store.store import Store, open_store
from evoflash.written_files import is_dry_run


def emulate(genome: Genome, problem: Problem, spec: GpuSpec) -> Evaluation:
    """What became of it, in a process of its own; where nothing failed it is correct at the pre-flight."""
    with IsolatedPool(1) as pool:
        ending = pool.submit(prepare, genome, problem, spec, True, 0, timeout_s=PREPARE_LIMIT_S).result()
    prepared = preparation_of(ending)
    why = prepared.failure
    return Evaluation(
        genome,
        str(problem),
        spec.name,
        Basis.ESTIMATED,
        why.status if why else Status.CORRECT,
        why.rung if why else Rung.PREFLIGHT,
        reason=why.reason if why else "",
        builds=prepared.builds,
        verdicts=prepared.verdicts,
    )


@dataclass(frozen=True, slots=True)
class GenomeRequest:
    """Values of a family's genes and where they are evaluated; `gpu` None: on the GPU that is present."""

    family: str
    values: Mapping[str, Value]
    problem: str
    gpu: str | None


def of_words(
    what: str | None,
    family: str | None,
    words: Sequence[str],
    *,
    problem: str | None,
    gpu: str | None,
    db: str,
) -> GenomeRequest:
    """What the command line names. UsageError for nothing, for two things, and for what cannot be read."""
    if (what is None) == (family is None):
        raise UsageError("name one genome: an id, a file, or --family with --set param=value.")
    if what is not None:
        if words:
            raise UsageError("--set belongs to --family: a genome that has an id or a file has its values.")
        return of_name(what, problem=problem, gpu=gpu, db=db)
    assert family is not None
    params = load_family(family).params
    values = dict(setting(params, word) for word in words)
    return GenomeRequest(family, values, problem or usual_problem(family), gpu)


def usual_problem(family: str) -> str:
    """What is meant where a family is named and no problem. UsageError for an unknown family."""
    return load_family(family).usual_problem


def of_name(what: str, *, problem: str | None, gpu: str | None, db: str) -> GenomeRequest:
    """The genome of an id or its first digits (of the database, else of the archive) or of a file.

    `problem` and `gpu` override what it is for.
    """
    path = Path(what)
    if path.suffix == ".cu" or path.suffix == ".json" or path.is_file():
        return _of_file(path, problem, gpu)
    return _of_genome(*known_genome(what, db, problem=problem, gpu=gpu))


def _of_genome(genome: Genome, problem: Problem, gpu: GpuSpec) -> GenomeRequest:
    check_unedited(genome)
    return GenomeRequest(genome.family, genome.as_dict(), str(problem), gpu.name)


def _of_file(path: Path, problem: str | None, gpu: str | None) -> GenomeRequest:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"{path} cannot be read: give a JSON file, an exported .cu or an id.") from None
    found = _of_genome(*genome_in(path, text)) if is_exported(path, text) else _of_json(path, text)
    text = problem or found.problem or usual_problem(found.family)
    return GenomeRequest(found.family, found.values, text, gpu or found.gpu)


def _of_json(path: Path, text: str) -> GenomeRequest:
    """`{"family": ..., "values": {...}}`, or what `show`, `best`, `evaluate` and `search` print as JSON."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"{path} is no JSON ({error.msg}, line {error.lineno}): {_WANTED}") from None
    data = data[0] if isinstance(data, list) and data else data
    data = data.get("best", data) if isinstance(data, dict) else None
    genome = data.get("genome", data) if isinstance(data, dict) else None
    if not (isinstance(genome, dict) and isinstance(data, dict) and _is_genome(genome)):
        raise UsageError(f"{path} names no genome: {_WANTED}")
    for name in ("problem", "gpu"):
        if not isinstance(data.get(name, ""), str):
            raise UsageError(f"{path}: '{name}' is no text: {_WANTED}")
    return GenomeRequest(genome["family"], genome["values"], data.get("problem", ""), data.get("gpu"))


_WANTED = (
    'write {"family": "flash_mma", "values": {"warps": 4}}, or take what `evoflash show ID --json` prints.'
)


def _is_genome(data: dict[str, Any]) -> bool:
    values = data.get("values")
    return isinstance(data.get("family"), str) and isinstance(values, dict)


STRATEGY = "evaluate"  # the name of its runs in the store: no search


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """What became of one genome, correct or not; on a GPU also how it stands beside the libraries."""

    evaluation: Evaluation
    result: RunResult


def evaluate(
    subject: GenomeRequest, evaluator: str | None, db: str, *, argv: Sequence[str], strategy: str = STRATEGY
) -> EvaluationResult:
    """One genome evaluated and stored; UsageError for values that are not valid, DeviceError without a GPU.

    `strategy` is the name of the run. A kernel that fails is an outcome like any other: `evaluation` says
    where it stopped, and why.
    """
    what = parse_problem(subject.problem)
    spec, basis = where(subject.gpu, evaluator)
    genome = valid_genome(subject.family, subject.values, what, spec)
    with open_store(db) as store:
        current = begin(store, what, spec, basis=basis, strategy=strategy, budget=1, argv=argv)
        result = evaluate_all(store, current, what, spec, [genome])
        ((_, evaluation),) = store.history(current)
    return EvaluationResult(evaluation, result)


def begin(
    store: Store,
    problem: Problem,
    spec: GpuSpec,
    *,
    basis: Basis,
    strategy: str,
    budget: int,
    argv: Sequence[str],
) -> Run:
    """A new run that is no search: `strategy` says what it is."""
    key = RunKey(str(problem), spec.name, basis, strategy, 0)
    noted = environment()
    return store.begin(key, gpu_hash=spec.hash, budget=budget, argv=argv, environment=noted, fresh=True)


class FixedList:
    """A strategy that proposes a fixed list, in order; `operator` says where it is from."""

    def __init__(self, genomes: Sequence[Genome], operator: str) -> None:
        self._left, self._operator = list(reversed(genomes)), operator

    def ask(self) -> Proposal | None:
        return Proposal(self._left.pop(), self._operator) if self._left else None

    def tell(self, proposal: Proposal, evaluation: Evaluation) -> None:
        """Nothing to learn."""


def evaluate_all(
    store: Store, current: Run, problem: Problem, spec: GpuSpec, genomes: Sequence[Genome]
) -> RunResult:
    """Every check for each genome, and on a GPU the final timing for the best, stored in the run."""
    limits = Limits(budget=len(genomes))
    with counting(store, current, limits), _evaluator(problem, spec, current.key.basis) as evaluates:
        search(FixedList(genomes, current.key.strategy), evaluates, store, current, budget=limits.budget)
        finals = time_finalists(evaluates, store, current)
        keep_pairs(store, current, finals)
    return result_of(store, current, finals)


def _evaluator(problem: Problem, spec: GpuSpec, basis: Basis) -> EmulatedEvaluator | MeasuredEvaluator:
    """The one of this basis; nothing is screened out for its time."""
    if basis is Basis.MEASURED:
        return MeasuredEvaluator(problem, spec, seed=0, proves_all=True)
    return EmulatedEvaluator(problem, spec, seed=0, proves_all=True)


def remeasure(
    db: str, *, top: int, gpu: str | None, problem: str | None, argv: Sequence[str]
) -> RunResult | None:
    """Measure the store's best estimates for a problem on this machine's GPU, as a run of its own. A dry run
    says which, and returns nothing.
    """
    with open_store(db) as store:
        spec, _ = where(gpu, "gpu")
        estimates = store.estimates(canonical(problem), spec.name, top, installed_versions(store))
        if not estimates:
            raise NoKernelError(f"no estimates for {spec.name} in the database: run `evoflash search` first.")
        what = parse_problem(problem or estimates[-1].problem)
        chosen = [e.genome for e in estimates if e.problem == str(what)]
        if is_dry_run():
            ids = ", ".join(genome.id for genome in chosen)
            say(f"would measure {count_of(len(chosen), 'kernel')} for {what} on {spec.name}: {ids}.")
            return None
        return measure_genomes(store, what, spec, chosen, strategy="remeasure", argv=argv)


def measure_genomes(
    store: Store,
    problem: Problem,
    spec: GpuSpec,
    genomes: Sequence[Genome],
    *,
    strategy: str,
    argv: Sequence[str],
) -> RunResult:
    """Take genomes up the whole ladder on this machine's GPU, and the best of them into the final timing.

    Stored as a run of its own, of that strategy.
    """
    current = begin(
        store, problem, spec, basis=Basis.MEASURED, strategy=strategy, budget=len(genomes), argv=argv
    )
    return evaluate_all(store, current, problem, spec, genomes)
