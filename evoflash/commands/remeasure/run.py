"""Known genomes, measured on this machine's GPU as a run of their own; nothing is searched."""

from collections.abc import Sequence

from evoflash.commands.evaluate.run import begin, taken_up
from evoflash.commands.search.plan import where
from evoflash.commands.search.run import SearchResult
from evoflash.errors import NoKernelError
from evoflash.evaluation import Basis
from evoflash.gpu import GpuSpec
from evoflash.problem import Problem, canonical, parse_problem
from evoflash.space import Genome
from evoflash.store.store import Store, open_store


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
    current = begin(
        store, problem, spec, basis=Basis.MEASURED, strategy=strategy, budget=len(genomes), argv=argv
    )
    return taken_up(store, current, problem, spec, genomes)
