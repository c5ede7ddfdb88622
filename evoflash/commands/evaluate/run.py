"""Given genomes, taken through every check to their times and stored as a run. Searches nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

from evoflash.commands import kernel_report as report
from evoflash.commands.evaluate.subject import Subject
from evoflash.commands.search.limits import Limits
from evoflash.commands.search.plan import where
from evoflash.commands.search.run import SearchResult, counting, keep_pairs, result_of
from evoflash.evaluation import Basis, Evaluation, Run, RunKey
from evoflash.evaluators.emulated import EmulatedEvaluator
from evoflash.evaluators.finals_phase import time_finalists
from evoflash.evaluators.measured import MeasuredEvaluator
from evoflash.families.export import valid_genome
from evoflash.gpu import GpuSpec
from evoflash.problem import Problem, parse_problem
from evoflash.search import search
from evoflash.space import Genome
from evoflash.store.store import Store, open_store
from evoflash.strategies.fixed_list import Given
from evoflash.timing.environment import environment

STRATEGY = "evaluate"  # the name of its runs in the store: no search


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one genome, correct or not; on a GPU also how it stands beside the libraries."""

    evaluation: Evaluation
    result: SearchResult

    def describe(self, *, as_json: bool) -> str:
        """The kernel as text, or as `show` prints it in JSON: a list of one object."""
        if as_json:
            return report.as_json([self.evaluation])
        if self.result.best is None:
            return report.brief(self.evaluation)
        return report.describe_result(self.result, as_json=False)


def evaluate(
    subject: Subject, evaluator: str | None, db: str, *, argv: Sequence[str], strategy: str = STRATEGY
) -> Outcome:
    """One genome evaluated and stored; UsageError for values that are not valid, DeviceError without a GPU.

    `strategy` is the name of the run. A kernel that fails is an outcome like any other: `evaluation` says
    where it stopped, and why.
    """
    what = parse_problem(subject.problem)
    spec, basis = where(subject.gpu, evaluator)
    genome = valid_genome(subject.family, subject.values, what, spec)
    with open_store(db) as store:
        current = begin(store, what, spec, basis=basis, strategy=strategy, budget=1, argv=argv)
        result = taken_up(store, current, what, spec, [genome])
        ((_, evaluation),) = store.history(current)
    return Outcome(evaluation, result)


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


def taken_up(
    store: Store, current: Run, problem: Problem, spec: GpuSpec, genomes: Sequence[Genome]
) -> SearchResult:
    """Every check for each genome, and on a GPU the final timing for the best, stored in the run."""
    limits = Limits(budget=len(genomes))
    with counting(store, current, limits), _evaluator(problem, spec, current.key.basis) as evaluates:
        search(Given(genomes, current.key.strategy), evaluates, store, current, budget=limits.budget)
        finals = time_finalists(evaluates.retimer, store, current)
        keep_pairs(store, current, finals)
    return result_of(store, current, finals)


def _evaluator(problem: Problem, spec: GpuSpec, basis: Basis) -> EmulatedEvaluator | MeasuredEvaluator:
    """The one of this basis; nothing is screened out for its time."""
    if basis is Basis.MEASURED:
        return MeasuredEvaluator(problem, spec, seed=0, proves_all=True)
    return EmulatedEvaluator(problem, spec, seed=0, proves_all=True)
