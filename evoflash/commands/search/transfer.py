"""What earlier searches in a store teach the next one: their outcomes on near problems. Searches nothing.

Which runs, and how many outcomes of each, is chosen when a run begins and noted in its environment: a search
that is continued uses the same, however much the store has grown since. They are named by their search and
when it began: a run's number is another one in a database that runs were merged into.
"""

import json
from collections.abc import Mapping, Sequence

import numpy as np

from evoflash import champions as champion
from evoflash.commands.search.plan import Field, Plan
from evoflash.errors import UsageError
from evoflash.evaluation import Evaluation, Run
from evoflash.problem import parse_problem
from evoflash.space import Genome, SearchSpace
from evoflash.store.store import Store
from evoflash.strategies.model.earlier import Earlier

NOTE = "learns_from"  # in a run's environment: the words of _name and a number of outcomes, for each run
RUNS = 6  # the nearest
SEEDS = 2  # of each search, its best


def note(store: Store, plan: Plan) -> dict[str, str]:
    """The nearest runs on other problems of the same GPU and basis; nothing where transfer is off."""
    if not plan.transfer:
        return {}
    near = sorted((_distance(plan, run), -run.id, run) for run in store.runs() if _is_near(plan, run))
    counts = ((run, len(store.history(run))) for _, _, run in near[:RUNS])
    used = [(*_name(run), count) for run, count in counts if count]
    return {NOTE: json.dumps(used)} if used else {}


def _name(run: Run) -> tuple[str | int, ...]:
    """What tells a run from the others of its GPU and basis, in every database."""
    return run.key.problem, run.key.strategy, run.key.seed, run.created


def _is_near(plan: Plan, run: Run) -> bool:
    key = run.key
    is_alike = (key.gpu, key.basis, run.gpu_hash) == (plan.gpu.name, plan.basis, plan.gpu.hash)
    return is_alike and key.problem != str(plan.problem) and _distance(plan, run) <= champion.NEAR


def _distance(plan: Plan, run: Run) -> float:
    try:
        return champion.distance(plan.problem, parse_problem(run.key.problem))
    except UsageError:  # of an operation or a version that is gone
        return np.inf


def earlier(store: Store, current: Run, fields: Sequence[Field]) -> Mapping[str, tuple[Earlier, ...]]:
    """What the run `current` uses, by family, the nearest search first."""
    noted = json.loads(store.environment(current).get(NOTE, "[]"))
    where = (current.key.gpu, current.key.basis)
    runs = {_name(run): run for run in store.runs() if (run.key.gpu, run.key.basis) == where}
    used = [(runs.get(tuple(name)), count) for *name, count in noted]
    histories = [store.history(run)[:count] for run, count in used if run is not None]
    found = {}
    for field in fields:
        mine = (_earlier([evaluation for _, evaluation in each], field.space) for each in histories)
        found[field.family.name] = tuple(each for each in mine if each.outcomes)
    return found


def _earlier(evaluations: Sequence[Evaluation], space: SearchSpace) -> Earlier:
    """Those of a space's family whose genomes are valid in it; failures are infinitely slow."""
    mine = [each for each in evaluations if each.genome.family == space.family and not each.is_censored]
    here = ((_here(each.genome, space), each.learnt_us) for each in mine)
    return Earlier(tuple((genome, np.inf if us is None else us) for genome, us in here if genome is not None))


def _here(genome: Genome, space: SearchSpace) -> Genome | None:
    """The genome completed to one of this space; None where it is none, or not valid."""
    try:
        found = space.genome(genome.as_dict())
    except UsageError:
        return None
    return found if genome.version == space.version and space.is_valid(found) else None


def seeds(field: Field, searches: Sequence[Earlier]) -> tuple[Genome, ...]:
    """In the order of what they are expected to be worth: the archive's, the best of near searches, the
    family's own.
    """
    best = (genome for each in searches for genome in each.best(SEEDS))
    return tuple(dict.fromkeys((*field.archived, *best, *field.seeds)))
