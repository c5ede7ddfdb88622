"""The loop: budget, duplicates, resuming, time limit, Ctrl-C; on recorded times, with an in-memory store."""

import time

import pytest
from strategy_cases import SPACE, TINY, Notebook, Recorded, evaluated, fails, score_us

from evoflash.evaluation import Basis, Evaluation, Proposal, Rung, Status, Timing, faster
from evoflash.search import InterruptedSearch, search
from evoflash.space import Genome
from evoflash.strategies import make_strategy


def uniform(space=SPACE, *, seed: int = 0):
    return make_strategy("uniform", space, seed=seed)


def test_the_best_correct_evaluation_is_returned() -> None:
    notebook = Notebook()
    best = search(uniform(), Recorded(score_us), notebook, "run", budget=50)
    scores = [e.score_us for _, e in notebook.rows if e.score_us is not None]
    assert best.score_us == min(scores)


def test_nothing_correct_means_no_best() -> None:
    assert search(uniform(), Recorded(fails), Notebook(), "run", budget=10) is None


@pytest.mark.parametrize("ahead", [1, 3, 16])
def test_duplicates_cost_no_budget_and_the_rest_add_up_to_it(ahead: int) -> None:
    def twin(genome: Genome) -> str:
        return "0" * 16 if genome.as_dict()["epilogue"] == "direct" else ""

    notebook = Notebook()
    search(uniform(), Recorded(score_us, ahead=ahead, twin=twin), notebook, "run", budget=40)
    assert notebook.spent_budget("run") == 40
    assert len(notebook.rows) > 40


def test_a_space_of_duplicates_ends_when_it_is_exhausted() -> None:
    notebook = Notebook()
    everything_twins = Recorded(fails, ahead=2, twin=lambda genome: "0" * 16)
    search(uniform(TINY), everything_twins, notebook, "run", budget=10)
    assert len(notebook.rows) == len(set(TINY))


@pytest.mark.parametrize(("ahead", "budget", "most"), [(4, 40, 4), (16, 5, 5)])
def test_no_more_is_in_flight_than_asked_for_or_than_the_budget_allows(ahead, budget, most) -> None:
    evaluator = Recorded(score_us, ahead=ahead)
    search(uniform(), evaluator, Notebook(), "run", budget=budget)
    assert evaluator.most_pending == most


def test_a_finished_search_spends_nothing_and_still_knows_its_best() -> None:
    notebook, again = Notebook(), Recorded(score_us)
    best = search(uniform(), Recorded(score_us), notebook, "run", budget=20)
    assert search(uniform(), again, notebook, "run", budget=20) == best
    assert again.most_pending == 0
    assert len(notebook.rows) == 20


def test_a_higher_budget_continues_where_the_lower_one_ended() -> None:
    notebook = Notebook()
    search(uniform(), Recorded(score_us), notebook, "run", budget=20)
    first = list(notebook.rows)
    search(uniform(), Recorded(score_us), notebook, "run", budget=30)
    assert notebook.rows[:20] == first
    assert len(notebook.rows) == 30


def test_without_a_budget_it_goes_on_until_the_best_is_enough() -> None:
    notebook = Notebook()
    best = search(
        uniform(),
        Recorded(score_us),
        notebook,
        "run",
        budget=None,
        is_enough=lambda found: found.score_us < 40,
    )
    times = [evaluation.score_us for _, evaluation in notebook.rows]

    assert best is not None
    assert best.score_us < 40
    assert [time is not None and time < 40 for time in times] == [False] * (len(times) - 1) + [True]


def test_what_was_enough_before_ends_a_resumed_search_at_once() -> None:
    notebook = Notebook()
    search(uniform(), Recorded(score_us), notebook, "run", budget=20)
    search(uniform(), Recorded(score_us), notebook, "run", budget=None, is_enough=lambda _: True)

    assert len(notebook.rows) == 20


def test_the_time_limit_ends_the_search_and_drops_what_is_in_flight(monkeypatch) -> None:
    class Slow(Recorded):
        """A second for each outcome."""

        at_s = 0.0

        def collect(self) -> tuple[Proposal, Evaluation]:
            self.at_s += 1.0
            return super().collect()

    notebook, evaluator = Notebook(), Slow(score_us, ahead=3)
    monkeypatch.setattr(time, "monotonic", lambda: evaluator.at_s)
    search(uniform(), evaluator, notebook, "run", budget=10_000, time_limit_s=3.5)
    assert len(notebook.rows) == 4, "the one that was waited for, too"
    assert evaluator.pending == 0


def test_ctrl_c_keeps_what_was_evaluated_and_names_the_best() -> None:
    notebook, evaluator = Notebook(), Recorded(score_us, ahead=3)

    def stop(proposal: Proposal, evaluation: Evaluation) -> None:
        if len(notebook.rows) == 12:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedSearch) as interrupted:
        search(uniform(), evaluator, notebook, "run", budget=50, on_evaluation=stop)
    assert len(notebook.rows) == 12
    assert evaluator.pending == 0
    assert interrupted.value.best.score_us == min(e.score_us for _, e in notebook.rows if e.is_correct)


def test_an_interrupted_search_resumes_to_the_budget() -> None:
    notebook, unbroken = Notebook(), Notebook()

    def stop(proposal: Proposal, evaluation: Evaluation) -> None:
        if len(notebook.rows) == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(uniform(), Recorded(score_us, ahead=3), notebook, "run", budget=20, on_evaluation=stop)
    search(uniform(), Recorded(score_us, ahead=3), notebook, "run", budget=20)
    search(uniform(), Recorded(score_us, ahead=3), unbroken, "run", budget=20)
    assert notebook.proposals == unbroken.proposals


def test_a_past_that_the_strategy_does_not_ask_for_again_is_told_and_never_evaluated_twice() -> None:
    notebook = Notebook()
    search(uniform(seed=1), Recorded(score_us, ahead=3), notebook, "run", budget=10)
    search(uniform(seed=2), Recorded(score_us, ahead=3), notebook, "run", budget=30)
    assert len({proposal.genome for proposal in notebook.proposals}) == len(notebook.proposals) == 30


def test_a_broken_machine_leaves_nothing_in_flight() -> None:
    class Broken(Recorded):
        def collect(self) -> tuple[Proposal, Evaluation]:
            raise OSError("the compiler is gone")

    evaluator = Broken(score_us, ahead=3)
    with pytest.raises(OSError, match="gone"):
        search(uniform(), evaluator, Notebook(), "run", budget=5)
    assert evaluator.pending == 0


def test_every_outcome_is_stored_before_it_is_announced() -> None:
    notebook, announced = Notebook(), []

    def announce(proposal: Proposal, evaluation: Evaluation) -> None:
        announced.append(notebook.rows[-1] == (proposal, evaluation))

    search(uniform(), Recorded(score_us), notebook, "run", budget=9, on_evaluation=announce)
    assert announced == [True] * 9


class InHeaps(Recorded):
    """Whatever is in flight has arrived, whenever one of it has."""

    @property
    def has_arrived(self) -> bool:
        return bool(self.pending)


class Transactions(Notebook):
    def __init__(self) -> None:
        super().__init__()
        self.sizes = []

    def add_all(self, run, outcomes) -> None:
        self.sizes.append(len(outcomes))
        super().add_all(run, outcomes)


@pytest.mark.parametrize("strategy", ["surrogate", "evolution"])
def test_what_arrives_together_is_one_transaction_and_changes_no_proposal(strategy: str) -> None:
    together, one_by_one = Transactions(), Transactions()
    for notebook, evaluator in ((together, InHeaps), (one_by_one, Recorded)):
        made = make_strategy(strategy, SPACE, seed=4)
        search(made, evaluator(score_us, ahead=5), notebook, "run", budget=22)
    assert together.sizes == [5, 5, 5, 5, 2]
    assert one_by_one.sizes == [1] * 22
    assert together.rows == one_by_one.rows


def test_what_was_stored_together_and_not_told_is_told_to_a_search_that_is_continued() -> None:
    notebook, unbroken = Notebook(), Notebook()

    def stop(proposal: Proposal, evaluation: Evaluation) -> None:
        if len(notebook.rows) > 11 and evaluation == notebook.rows[11][1]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(uniform(), InHeaps(score_us, ahead=5), notebook, "run", budget=30, on_evaluation=stop)
    assert len(notebook.rows) == 15
    for each in (notebook, unbroken):
        search(uniform(), InHeaps(score_us, ahead=5), each, "run", budget=30)
    assert notebook.rows == unbroken.rows


def test_a_lower_bound_never_beats_a_finished_timing() -> None:
    genome = next(iter(TINY))
    bound = Timing("p", "cold", 1.0, 1.0, 1.0, 1, censored=True)
    censored = Evaluation(
        genome, "p", "g", Basis.MEASURED, Status.CORRECT, Rung.TIMING, timings=(bound,), score_us=1.0
    )
    finished = evaluated(genome, 5.0)
    assert faster(censored, finished) == finished
    assert faster(finished, censored) == finished


class AsTheyEnd(Recorded):
    """Hands back whatever is done first, as a GPU's evaluator does; here that with the smallest id."""

    def collect(self) -> tuple[Proposal, Evaluation]:
        first = min(range(self.pending), key=lambda at: self.queue[at].genome.id)
        self.queue.rotate(-first)
        outcome = super().collect()
        self.queue.rotate(first)
        return outcome


@pytest.mark.parametrize("strategy", ["surrogate", "evolution"])
def test_a_search_whose_outcomes_come_out_of_order_resumes_to_the_same_proposals(strategy: str) -> None:
    notebook, unbroken = Notebook(), Notebook()

    def stop(proposal: Proposal, evaluation: Evaluation) -> None:
        if len(notebook.rows) in (9, 31):
            raise KeyboardInterrupt

    def searched(into: Notebook, on_evaluation=None) -> None:
        made = make_strategy(strategy, SPACE, seed=4)
        search(made, AsTheyEnd(score_us, ahead=7), into, "run", budget=45, on_evaluation=on_evaluation)

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            searched(notebook, stop)
    searched(notebook)
    searched(unbroken)
    assert notebook.proposals == unbroken.proposals
    asked = Notebook()
    search(make_strategy(strategy, SPACE, seed=4), Recorded(score_us, ahead=7), asked, "run", budget=45)
    assert asked.proposals != unbroken.proposals  # the order did matter
