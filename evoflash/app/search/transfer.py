"""What earlier searches teach the next one: their outcomes on near problems. Searches nothing.

They are those of the store, and those that ship with evoflash for the GPU (champions/). Which, and how many
outcomes of each, is chosen when a run begins and noted in its environment: a search that is continued uses
the same, however much the store has grown since. Runs are named by their search and when it began: a run's
number is another one in a database that runs were merged into.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from evoflash import champions as champion
from evoflash.app.search.plan import SearchField, SearchPlan
from evoflash.champions import past_searches
from evoflash.errors import UsageError
from evoflash.evaluation import Evaluation, Run
from evoflash.problem import parse_problem
from evoflash.space import Genome, SearchSpace
from evoflash.store.store import Store
from evoflash.strategies.model.earlier import Earlier

NOTE = "learns_from"  # in a run's environment: the words of _name and a number of outcomes, for each run
RUNS = 6  # the nearest
SHIPPED = "learns_from_shipped"  # there, too: the problems of shipped searches
SEEDS = 2  # of each search, its best
Timed = tuple[Genome, float]  # in us, infinite for what failed


def note(store: Store, plan: SearchPlan) -> dict[str, str]:
    """The nearest runs on other problems of the same GPU and basis, unless transfer is off, and the nearest
    shipped searches, where the plan starts from the archive.
    """
    shipped = {SHIPPED: json.dumps(plan.shipped)} if plan.shipped else {}
    return shipped | (_of_store(store, plan) if plan.transfer else {})


def _of_store(store: Store, plan: SearchPlan) -> dict[str, str]:
    near = sorted((_distance(plan, run), -run.id, run) for run in store.runs() if _is_near(plan, run))
    counts = ((run, len(store.history(run))) for _, _, run in near[:RUNS])
    used = [(*_name(run), count) for run, count in counts if count]
    return {NOTE: json.dumps(used)} if used else {}


def _name(run: Run) -> tuple[str | int, ...]:
    """What tells a run from the others of its GPU and basis, in every database."""
    return run.key.problem, run.key.strategy, run.key.seed, run.created


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
    problem, noted = parse_problem(current.key.problem), store.environment(current)
    found = [
        *_runs(store, current, noted.get(NOTE, "[]")),
        *_shipped_outcomes(current, noted.get(SHIPPED, "[]")),
    ]
    searches = sorted(found, key=lambda search: champion.distance(problem, parse_problem(search[0])))
    mine = {
        field.family.name: [_earlier(outcomes, field.space) for _, outcomes in searches] for field in fields
    }
    return {name: tuple(each for each in found if each.outcomes) for name, found in mine.items()}


def _runs(store: Store, current: Run, noted: str) -> Iterator[tuple[str, list[Timed]]]:
    """The problem and the outcomes of each run of the note that is still there."""
    where = (current.key.gpu, current.key.basis)
    runs = {_name(run): run for run in store.runs() if (run.key.gpu, run.key.basis) == where}
    for *name, count in json.loads(noted):
        if (run := runs.get(tuple(name))) is not None:
            history = (evaluation for _, evaluation in store.history(run)[:count])
            yield run.key.problem, [_genome_time(each) for each in history if not each.is_censored]


def _shipped_outcomes(current: Run, noted: str) -> Iterator[tuple[str, list[Timed]]]:
    """The problem and the outcomes of each shipped search of the note that this version has, too."""
    known = {each.problem: each for each in past_searches(current.key.gpu)}
    for problem in json.loads(noted):
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
    return found if genome.version == space.version and space.is_valid(found) else None


def seeds(field: SearchField, searches: Sequence[Earlier]) -> tuple[Genome, ...]:
    """In the order of what they are expected to be worth: the archive's, the best of near searches, the
    family's own.
    """
    best = (genome for each in searches for genome in each.best(SEEDS))
    return tuple(dict.fromkeys((*field.archived, *best, *field.seeds)))
