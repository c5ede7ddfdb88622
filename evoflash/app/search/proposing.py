"""Makes the strategy of a plan, in this process or in one of its own. Proposes nothing of itself.

Several GPUs take proposals faster than the search's process could make them beside all else that it does; one
of its own proposes the same.
"""

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection

from evoflash.app.objectives import LATENCY
from evoflash.app.search import transfer
from evoflash.app.search.plan import SearchField, SearchPlan, space_of
from evoflash.champions import family_shares_near
from evoflash.errors import EvoflashError
from evoflash.evaluation import Evaluation, Proposal
from evoflash.isolation import die_with_parent
from evoflash.kernels.family import load_family
from evoflash.search import Strategy
from evoflash.space import Genome
from evoflash.spawning import spawning
from evoflash.strategies import make_strategy
from evoflash.strategies.prior import Earlier
from evoflash.strategies.surrogate import SEEDS

EarlierSearches = Mapping[str, tuple[Earlier, ...]]
FEWEST_SEEDS = 4  # of each family before the strategy's own choice: the bandit's opening, so that hopeless
# families need no model
_Field = tuple[str, tuple[Genome, ...], tuple[Genome, ...]]  # a family, its seeds, and which are archived


def strategy_of(plan: SearchPlan, earlier: EarlierSearches | None = None) -> Strategy:
    """A strategy for each family; above several of them stands the bandit that divides the budget.

    `earlier` are searches for other problems by family, the nearest first.
    """
    earlier = earlier or {}
    members = {}
    for field in plan.fields:
        searches = earlier.get(field.family.name, ())
        members[field.family.name] = make_strategy(
            plan.strategy,
            field.space,
            seed=plan.seed,
            seeds=transfer.seeds(field, searches),
            first=max(FEWEST_SEEDS, SEEDS // len(plan.fields)),
            earlier=searches,
        )
    if len(members) == 1:
        return next(iter(members.values()))
    from evoflash.strategies.family_bandit import Bandit

    genes = {field.family.name: len(field.space.params) for field in plan.fields}
    won = family_shares_near(plan.problem, plan.gpu.name) if plan.archived_seeds else {}
    near = {
        family: [each.behind for each in searches if each.behind is not None]
        for family, searches in earlier.items()
    }
    behind = {family: min(times) for family, times in near.items() if times}
    return Bandit(members, seed=plan.seed, genes=genes, won=won, behind=behind)


@contextmanager
def proposals_from(plan: SearchPlan, earlier: EarlierSearches, *, apart: bool) -> Iterator[Strategy]:
    """The plan's strategy, `apart` from this process or in it."""
    if not apart:
        yield strategy_of(plan, earlier)
        return
    with StrategyProcess(plan, earlier) as strategy:
        yield strategy


class StrategyProcess:
    """A Strategy whose work is done in another process, in the order in which it is asked and told."""

    def __init__(self, plan: SearchPlan, earlier: EarlierSearches) -> None:
        self._pipe, theirs = spawning().Pipe()
        # A space is made of functions, which no pipe takes: it is made once more there.
        fields = tuple((field.family.name, field.seeds, field.archived) for field in plan.fields)
        bare = replace(plan, fields=(), llm=None, objectives=LATENCY)
        self._process = spawning().Process(target=_serve, args=(theirs, bare, fields, earlier), daemon=True)
        self._process.start()
        theirs.close()  # the other end of a pipe that only its process holds says when that process is gone

    def ask(self) -> Proposal | None:
        """As the strategy; raises what it raises there."""
        try:
            self._pipe.send(None)
            answer = self._pipe.recv()
        except (EOFError, OSError):
            raise self._end_of_process() from None
        if isinstance(answer, Exception):
            raise answer
        proposal: Proposal | None = answer
        return proposal

    def tell(self, proposal: Proposal, evaluation: Evaluation) -> None:
        """As the strategy, which takes it up beside what this process does next."""
        try:
            self._pipe.send((proposal, evaluation))
        except OSError:
            raise self._end_of_process() from None

    def _end_of_process(self) -> EvoflashError:
        self._process.join()
        return EvoflashError(
            f"the process that proposes ended with {self._process.exitcode}: what was evaluated is kept; the "
            "same command continues."
        )

    def __enter__(self) -> "StrategyProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()
        self._process.kill()
        self._process.join()


def _serve(pipe: Connection, plan: SearchPlan, fields: tuple[_Field, ...], earlier: EarlierSearches) -> None:
    """Until nobody asks any more. What the strategy raises is the answer to the next question, the last."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the search's process hears them
        signal.signal(number, signal.SIG_IGN)
    die_with_parent()
    try:
        strategy = strategy_of(
            replace(plan, fields=tuple(_field_again(plan, *each) for each in fields)), earlier
        )
        while True:
            told = pipe.recv()
            if told is None:
                pipe.send(strategy.ask())
            else:
                strategy.tell(*told)
    except (EOFError, BrokenPipeError):
        return
    except Exception as error:
        pipe.send(error)


def _field_again(
    plan: SearchPlan, name: str, seeds: tuple[Genome, ...], archived: tuple[Genome, ...]
) -> SearchField:
    family = load_family(name)
    return SearchField(family, space_of(family, plan.problem, plan.gpu), seeds, archived)
