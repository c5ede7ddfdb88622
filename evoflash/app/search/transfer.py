"""What earlier searches teach the next one: their outcomes on other problems. Searches nothing.

They are those of the store, and those that ship with evoflash for the GPU (champions/), of the same
operation, the nearest problems first. Which, and how many outcomes of each, is chosen when a run begins and
kept with it: a search that is continued uses the same, however much the store has grown since. Runs are named
by their search and when it began: a run's number is another one in a database that runs were merged into.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from evoflash import champions as champion
from evoflash.app.search.plan import SearchField, SearchPlan, space_of
from evoflash.champions.past_searches import past_search
from evoflash.errors import UsageError
from evoflash.evaluation import EarlierRun, Evaluation, Run, RunStart
from evoflash.perf_model import sizes_of
from evoflash.problem import Problem, parse_problem
from evoflash.space import Genome, SearchSpace
from evoflash.specs import GpuSpec
from evoflash.store.store import Store
from evoflash.strategies import LEARNS_EARLIER
from evoflash.strategies.gaussian_process import by_share, some_of
from evoflash.strategies.prior import MOST_OUTCOMES, Earlier

RUNS = 12  # the nearest: as many outcomes as a model is taught (prior.TAUGHT)
SEEDS = 2  # of each of some near searches, its best
NEAREST = 6  # searches, where they are near, that seeds come from
FEWEST = 8  # outcomes of a family: its seeds alone teach nothing
Timed = tuple[Genome, float]  # in us, infinite for what failed


def start_of(store: Store, plan: SearchPlan) -> RunStart:
    """What a run of the plan that begins now would start and learn from: of the archive what the plan names,
    of the store the nearest runs on other problems of the same GPU and basis.
    """
    learns = plan.strategy in LEARNS_EARLIER and plan.transfer
    return RunStart(
        archive=tuple(genome.id for genome in plan.archived_seeds),
        learns_from=tuple(_alike_runs(store, plan)) if learns else (),
        learns_from_shipped=plan.shipped,
    )


def _alike_runs(store: Store, plan: SearchPlan) -> Iterator[EarlierRun]:
    near = sorted((_distance(plan, run), -run.id, run) for run in store.runs() if _is_alike(plan, run))
    for _, _, run in near[:RUNS]:
        if count := store.proposal_count(run):
            yield EarlierRun(run.key.problem, run.key.search_name, run.key.seed, run.created, count)


def _is_alike(plan: SearchPlan, run: Run) -> bool:
    key = run.key
    is_alike = (key.gpu, key.basis, run.gpu_hash) == (plan.gpu.name, plan.basis, plan.gpu.hash)
    return is_alike and key.problem != str(plan.problem) and _distance(plan, run) < np.inf


def _distance(plan: SearchPlan, run: Run) -> float:
    try:
        return champion.distance(plan.problem, parse_problem(run.key.problem))
    except UsageError:  # of an operation or a version that is gone
        return np.inf


@dataclass(frozen=True, slots=True)
class _Search:
    """One search's outcomes, of any family; a shipped one has the proportions of its genomes by family."""

    problem: Problem
    outcomes: Mapping[str, Sequence[Timed]]
    proportions: Mapping[str, tuple[tuple[float, ...], ...]] | None = None


def earlier(store: Store, current: Run, plan: SearchPlan) -> Mapping[str, tuple[Earlier, ...]]:
    """What the run `current` of the plan uses, by family, the nearest search first."""
    found = [*_runs(store, current), *_shipped_searches(current)]
    ranked = [(champion.distance(plan.problem, search.problem), search) for search in found]
    ranked.sort(key=lambda pair: pair[0])
    is_ours = {field.family.name: _membership(field.space) for field in plan.fields}
    mine: dict[str, list[Earlier]] = {name: [] for name in is_ours}
    starting = 0
    for far, search in ranked:
        is_near = far <= champion.NEAR
        # The best of what ships is in the archive.
        starts = is_near and search.proportions is None and starting < NEAREST
        starting += starts
        best_us = min(map(_us, chain(*search.outcomes.values())), default=np.inf)
        for field in plan.fields:
            name = field.family.name
            if len(outcomes := search.outcomes.get(name, ())) < FEWEST:
                continue
            if search.proportions is None:
                made = _of_a_run(search, field, plan.gpu, starts=starts)
            else:
                made = _of_a_shipped_one(search, name, plan.gpu, is_ours[name])
            is_behind = is_near and best_us < np.inf
            mine[name].append(replace(made, behind=min(map(_us, outcomes)) / best_us if is_behind else None))
    return {name: tuple(searches) for name, searches in mine.items()}


def _runs(store: Store, current: Run) -> Iterator[_Search]:
    """Each run that it learns from and that is still there."""
    where = (current.key.gpu, current.key.basis)
    there = [run for run in store.runs() if (run.key.gpu, run.key.basis) == where]
    runs = {(run.key.problem, run.key.search_name, run.key.seed, run.created): run for run in there}
    for used in current.start.learns_from:
        if (run := runs.get((used.problem, used.search_name, used.seed, used.created))) is not None:
            families: dict[str, list[Timed]] = {}
            for _, each in store.history(run)[: used.outcomes]:
                if not each.is_censored:
                    families.setdefault(each.genome.family, []).append(_genome_time(each))
            yield _Search(parse_problem(run.key.problem), families)


def _shipped_searches(current: Run) -> Iterator[_Search]:
    """Each shipped search that it learns from and that this version has."""
    for problem in current.start.learns_from_shipped:
        if (search := past_search(current.key.gpu, problem)) is not None:
            yield _Search(parse_problem(problem), search.families, search.proportions)


def _us(timed: Timed) -> float:
    return timed[1]


def _genome_time(evaluation: Evaluation) -> Timed:
    return evaluation.genome, np.inf if evaluation.learnt_us is None else evaluation.learnt_us


def _of_a_shipped_one(
    search: _Search, family: str, gpu: GpuSpec, is_ours: Callable[[Genome], bool]
) -> Earlier:
    """Its outcomes of the family. One of that name in a folder of the user's own may have other genes."""
    outcomes, proportions = search.outcomes[family], (search.proportions or {})[family]
    ours = [at for at, (genome, _) in enumerate(outcomes) if is_ours(genome)]
    return Earlier(
        tuple(outcomes[at] for at in ours),
        tuple(proportions[at] for at in ours),
        sizes_of(search.problem, gpu),
    )


def _of_a_run(search: _Search, field: SearchField, gpu: GpuSpec, *, starts: bool) -> Earlier:
    """Its outcomes of the field's family, as genomes of the space of its own problem, and where it `starts`
    this search, its fastest here.
    """
    outcomes = search.outcomes[field.family.name]
    there = space_of(field.family, search.problem, gpu)
    known = [(found, us) for genome, us in outcomes if (found := valid_in(there, genome)) is not None]
    scores = np.array([us for _, us in known])
    kept = [known[at] for at in some_of(by_share(scores, scores), MOST_OUTCOMES)]
    fastest = sorted((us, at) for at, (_, us) in enumerate(outcomes) if us < np.inf)[:SEEDS] if starts else ()
    best = (valid_in(field.space, outcomes[at][0]) for _, at in fastest)
    return Earlier(
        tuple(kept),
        tuple(there.proportions.of(genome) for genome, _ in kept) if there.proportions else (),
        there.proportions.sizes if there.proportions else (),
        tuple(genome for genome in best if genome is not None),
    )


def _membership(space: SearchSpace) -> Callable[[Genome], bool]:
    """Tells whether all values of a genome are ones of the space, under whatever problem it is valid."""
    values = {(param.name, type(value), value) for param in space.params for value in param.values}

    def is_ours(genome: Genome) -> bool:
        own = ((name, type(value), value) for name, value in genome.values)
        return genome.version == space.version and not genome.edits and values.issuperset(own)

    return is_ours


def valid_in(space: SearchSpace, genome: Genome) -> Genome | None:
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
    best = (genome for each in searches for genome in each.starts)
    return tuple(dict.fromkeys((*field.archived, *best, *field.seeds)))
