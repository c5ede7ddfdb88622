"""Known genomes, measured on this machine's GPU as a run of their own; nothing is searched."""

from collections.abc import Sequence

from evoflash.commands.search.limits import Limits
from evoflash.commands.search.plan import where
from evoflash.commands.search.run import SearchResult, counting
from evoflash.environment import environment
from evoflash.errors import NoKernelError
from evoflash.evaluation import Basis, RunKey
from evoflash.evaluators.finals_phase import time_finalists
from evoflash.evaluators.measured import MeasuredEvaluator
from evoflash.gpu import GpuSpec
from evoflash.problem import Problem, canonical, parse_problem
from evoflash.search import search
from evoflash.space import Genome
from evoflash.store.store import Store, open_store
from evoflash.strategies.fixed_list import Given


def remeasure(
    db: str, *, top: int, gpu: str | None, problem: str | None, argv: Sequence[str]
) -> SearchResult:
    """Measure the store's best estimates for a problem on this machine's GPU, as a run of its own."""
    with open_store(db) as store:
        spec, _ = where(gpu, "gpu")
        estimates = store.estimates(canonical(problem), spec.name, top)
        if not estimates:
            raise NoKernelError(f"no estimates for {spec.name} in the database: run `evoflash search` first.")
        what = parse_problem(problem or estimates[-1].problem)
        chosen = [e.genome for e in estimates if e.problem == str(what)]
        return measured(store, what, spec, chosen, strategy="remeasure", argv=argv)


def measured(
    store: Store,
    problem: Problem,
    spec: GpuSpec,
    genomes: Sequence[Genome],
    *,
    strategy: str,
    argv: Sequence[str],
) -> SearchResult:
    """Take genomes up the whole ladder on this machine's GPU, and the best of them into the final timing.

    Stored as a run of its own, of that strategy.
    """
    key = RunKey(str(problem), spec.name, Basis.MEASURED, strategy, 0)
    current = store.begin(
        key, gpu_hash=spec.hash, budget=len(genomes), argv=argv, environment=environment(), fresh=True
    )
    limits = Limits(budget=len(genomes))
    with (
        counting(store, current, limits),
        MeasuredEvaluator(problem, spec, seed=0, proves_all=True) as evaluates,
    ):
        search(Given(genomes, strategy), evaluates, store, current, budget=limits.budget)
        finals = time_finalists(evaluates.retimer, store, current)
    return SearchResult(store.best_of(current), store.spent(current), finals)
