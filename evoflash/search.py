"""THE LOOP, to be read first, which asks a strategy, evaluates, stores and tells. Measures nothing itself.

The store is the one truth. A strategy is rebuilt from it by asking and telling it its own past once more, so
a search that was killed goes on as if it had never stopped, and one that has spent its budget spends nothing.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from evoflash.evaluation import Basis, Evaluation, Proposal, faster

RunT = TypeVar("RunT", contravariant=True)


class Strategy(Protocol):
    """Proposes genomes and learns from what became of them."""

    def ask(self) -> Proposal | None:
        """A valid genome that was neither asked nor told before; None when nothing new is left."""

    def tell(self, proposal: Proposal, evaluation: Evaluation) -> None:
        """Learn one outcome. Outcomes of an earlier process come first, in the order of their storing; they
        need not have been asked for.
        """


class Evaluator(Protocol):
    """Turns proposals into evaluations, several in flight so that compilation overlaps the rest."""

    @property
    def basis(self) -> Basis:
        """Where its times come from."""

    @property
    def ahead(self) -> int:
        """How many proposals it wants in flight."""

    @property
    def pending(self) -> int:
        """Proposals submitted and not yet collected."""

    def submit(self, proposal: Proposal) -> None:
        """Start on a proposal; returns at once."""

    @property
    def has_arrived(self) -> bool:
        """Whether collect() need not wait."""

    def collect(self) -> tuple[Proposal, Evaluation]:
        """The oldest pending proposal's outcome, waiting for it: runs repeat because the order does."""

    def cancel(self) -> None:
        """Drop everything pending; nothing is pending afterwards. Harmless when nothing was."""


class RunStore(Protocol[RunT]):
    """What the loop needs of a store."""

    def history(self, run: RunT, /) -> Iterable[tuple[Proposal, Evaluation]]:
        """Everything this run has told before, oldest first, duplicates included."""

    def spent_budget(self, run: RunT, /) -> int:
        """Evaluations that count towards the budget; duplicates do not."""

    def add_all(self, run: RunT, outcomes: Sequence[tuple[Proposal, Evaluation]], /) -> None:
        """Keep outcomes, in one transaction."""


class InterruptedSearch(KeyboardInterrupt):
    """Ctrl-C during a search: all that was evaluated is stored, and the same command resumes."""

    def __init__(self, best: Evaluation | None) -> None:
        super().__init__()
        self.best = best


def search(
    strategy: Strategy,
    evaluator: Evaluator,
    store: RunStore[RunT],
    run: RunT,
    *,
    budget: int | None,
    time_limit_s: float | None = None,
    is_enough: Callable[[Evaluation], bool] | None = None,
    on_evaluation: Callable[[Proposal, Evaluation], None] | None = None,
) -> Evaluation | None:
    """Take the run to `budget` evaluations (None: without end) and return its best correct one, if any.

    Ends earlier when the strategy has nothing new left, when the best is_enough, or at the time limit: the
    outcome being waited for is then kept, the others in flight are dropped. Ctrl-C raises InterruptedSearch.
    Outcomes that have arrived are stored together, then told one by one with a proposal after each, so that
    what is proposed does not depend on how many came at a time.
    """
    most = math.inf if budget is None else budget
    deadline = time.monotonic() + (math.inf if time_limit_s is None else time_limit_s)
    best = None
    waiting: deque[Proposal] = deque()  # asked for and not submitted: an earlier process had begun on them
    stored: deque[tuple[Proposal, Evaluation]] = deque()  # and not told yet
    for evaluation in _replay_history(
        strategy, store.history(run), waiting, ahead=evaluator.ahead, most=most
    ):
        best = faster(best, evaluation)
    spent = store.spent_budget(run)
    try:
        while stored or (spent < most and time.monotonic() < deadline):
            if not stored and is_enough is not None and best is not None and is_enough(best):
                break
            _fill(strategy, evaluator, waiting, room=most - spent, beside=len(stored))
            if not stored:
                if not evaluator.pending:
                    break
                stored.append(evaluator.collect())
                while evaluator.has_arrived:
                    stored.append(evaluator.collect())
                store.add_all(run, stored)
            proposal, evaluation = stored.popleft()
            strategy.tell(proposal, evaluation)
            best = faster(best, evaluation)
            spent += not evaluation.duplicate_of
            if on_evaluation is not None:
                on_evaluation(proposal, evaluation)
    except KeyboardInterrupt:
        raise InterruptedSearch(best) from None
    finally:
        evaluator.cancel()
    return best


def _replay_history(
    strategy: Strategy,
    history: Iterable[tuple[Proposal, Evaluation]],
    waiting: deque[Proposal],
    *,
    ahead: int,
    most: float,
) -> Iterator[Evaluation]:
    """Ask and tell the strategy as the loop did before, and leave in `waiting` what was in flight at the end.

    Told without being asked, a strategy would know more at each proposal than it did: the search would go
    on, but elsewhere than one that was not stopped. Where it asks for something else than is stored (a
    newer version, another number of cores), the rest of the past is only told.
    """
    spent, repeats = 0, True
    for proposal, evaluation in history:
        if repeats:
            _ask(strategy, waiting, most=min(ahead, most - spent))
        known = [each for each in waiting if each.genome == proposal.genome]
        repeats = repeats and bool(known)
        for each in known:
            waiting.remove(each)
        strategy.tell(proposal, evaluation)
        spent += not evaluation.duplicate_of
        yield evaluation


def _ask(strategy: Strategy, waiting: deque[Proposal], *, most: float) -> None:
    while len(waiting) < most and (proposal := strategy.ask()) is not None:
        waiting.append(proposal)


def _fill(
    strategy: Strategy, evaluator: Evaluator, waiting: deque[Proposal], *, room: float, beside: int
) -> None:
    # Never more in flight, `beside` those that are not told yet, than the budget has room for: if none is a
    # duplicate, all of them count.
    most = min(evaluator.ahead, room) - beside
    _ask(strategy, waiting, most=most - evaluator.pending)
    while waiting and evaluator.pending < most:
        evaluator.submit(waiting.popleft())
