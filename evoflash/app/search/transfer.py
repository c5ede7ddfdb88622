"""What earlier searches teach the next one: their outcomes on near problems. Searches nothing.

They are those of the store, and those that ship with evoflash for the GPU (champions/). Which, and how many
outcomes of each, is chosen when a run begins and kept with it: a search that is continued uses
the same, however much the store has grown since. Runs are named by their search and when it began: a run's
number is another one in a database that runs were merged into.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from evoflash import champions as champion
from evoflash.app.search.plan import SearchField, SearchPlan
from evoflash.champions import past_searches
from evoflash.errors import UsageError
from evoflash.evaluation import EarlierRun, Evaluation, Run, RunStart
from evoflash.problem import parse_problem
from evoflash.space import Genome, SearchSpace
from evoflash.store.store import Store
from evoflash.strategies import LEARNS_EARLIER
from evoflash.strategies.gaussian_process import Earlier

RUNS = 6  # the nearest
SEEDS = 2  # of each search, its best
Timed = tuple[Genome, float]  # in us, infinite for what failed


def start_of(store: Store, plan: SearchPlan) -> RunStart:
    """What a run of the plan that begins now would start and learn from: of the archive what the plan names,
    of the store the nearest runs on other problems of the same GPU and basis, unless transfer is off.
    """
    learns = plan.strategy in LEARNS_EARLIER and plan.transfer
    return RunStart(
        archive=tuple(genome.id for genome in plan.archived_seeds),
        learns_from=tuple(_near_runs(store, plan)) if learns else (),
        learns_from_shipped=plan.shipped,
    )


def _near_runs(store: Store, plan: SearchPlan) -> Iterator[EarlierRun]:
    near = sorted((_distance(plan, run), -run.id, run) for run in store.runs() if _is_near(plan, run))
    for _, _, run in near[:RUNS]:
        if count := len(store.history(run)):
            yield EarlierRun(run.key.problem, run.key.search_name, run.key.seed, run.created, count)


def _is_near(plan: SearchPlan, run: Run) -> bool:
    key = run.key
    is_alike = (key.gpu, key.basis, run.gpu_hash) == (plan.gpu.name, plan.basis, plan.gpu.hash)
    return is_alike and key.problem != str(plan.problem) and _distance(plan, run) <= champion.NEAR


def _distance(plan: SearchPlan, run: Run) -> float:
    try:
        return champion.distance(plan.problem, parse_problem(run.key.problem))
    except UsageError:  # of an operation or a version that is gone
        return np.inf


def earlier(store: Store, current: Run, fields: Sequence[SearchField]) -> Mapping[str, tuple[Earlier, ...]]:
    """What the run `current` uses, by family, the nearest search first."""
    problem, found = parse_problem(current.key.problem), [*_runs(store, current), *_shipped_outcomes(current)]
    searches = sorted(found, key=lambda search: champion.distance(problem, parse_problem(search[0])))
    mine = {
        field.family.name: [_earlier(outcomes, field.space) for _, outcomes in searches] for field in fields
    }
    return {name: tuple(each for each in found if each.outcomes) for name, found in mine.items()}


def _runs(store: Store, current: Run) -> Iterator[tuple[str, list[Timed]]]:
    """The problem and the outcomes of each run that it learns from and that is still there."""
    where = (current.key.gpu, current.key.basis)
    there = [run for run in store.runs() if (run.key.gpu, run.key.basis) == where]
    runs = {(run.key.problem, run.key.search_name, run.key.seed, run.created): run for run in there}
    for used in current.start.learns_from:
        if (run := runs.get((used.problem, used.search_name, used.seed, used.created))) is not None:
            history = (evaluation for _, evaluation in store.history(run)[: used.outcomes])
            yield run.key.problem, [_genome_time(each) for each in history if not each.is_censored]


def _shipped_outcomes(current: Run) -> Iterator[tuple[str, list[Timed]]]:
    """The problem and the outcomes of each shipped search that it learns from and this version has."""
    known = {each.problem: each for each in past_searches(current.key.gpu)}
    for problem in current.start.learns_from_shipped:
        if problem in known:
            yield problem, [pair for each in known[problem].families.values() for pair in each]


def _genome_time(evaluation: Evaluation) -> Timed:
    return evaluation.genome, np.inf if evaluation.learnt_us is None else evaluation.learnt_us


def _earlier(outcomes: Iterable[Timed], space: SearchSpace) -> Earlier:
    """Those of a space's family whose genomes are valid in it."""
    mine = ((_here(genome, space), us) for genome, us in outcomes if genome.family == space.family)
    return Earlier(tuple((genome, us) for genome, us in mine if genome is not None))


def _here(genome: Genome, space: SearchSpace) -> Genome | None:
    """The genome completed to one of this space; None where it is none, or not valid."""
    try:
        found = space.genome(genome.as_dict())
    except UsageError:
        return None
    is_one = genome.version == space.version and not genome.edits
    return found if is_one and space.is_valid(found) else None


def seeds(field: SearchField, searches: Sequence[Earlier]) -> tuple[Genome, ...]:
    """In the order of what they are expected to be worth: the archive's, the best of near searches, the
    family's own.
    """
    best = (genome for each in searches for genome in each.best(SEEDS))
    return tuple(dict.fromkeys((*field.archived, *best, *field.seeds)))
