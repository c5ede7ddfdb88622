"""A search with a language model beside its strategy: what it proposes, costs, earns, keeps and repeats."""

import json
import time
from collections import Counter
from dataclasses import replace

import pytest
from strategy_cases import SPACE, Notebook, Recorded, cut, score_us, spend
from waiting import LIMIT_S, until

from evoflash.llm.correspondence import MOST_FAILURES, MOST_USELESS, Correspondence
from evoflash.llm.endpoint import Endpoint
from evoflash.llm.operator import WithLanguageModel, trials
from evoflash.llm.prompt import KernelSource, KernelTask
from evoflash.model_exchange import ANSWERED, MODEL_EDIT, RANDOM_EDIT, VALID
from evoflash.search import search
from evoflash.strategies import make_strategy
from tests.llm import loopback
from tests.llm.loopback import USELESS

SOURCE = KernelSource(
    lambda genome: "".join(f"line {at};\n" for at in range(40)),
    lambda genome: [{"entry": "tiles", "grid": (1, 1, 1)}],
    lambda child, parent: None if child.edits[-1][0].startswith("line ") else ("does not apply", ""),
    4000,
)
TASK = KernelTask("p", {"name": "g"}, 1.0, "Tiles.", SPACE, {"v_stages": "waits == 1"}, {"rows_fit": "?"})
BUDGET = 120


class Patient(Recorded):
    """Evaluations that wait for requests under way, for `most_s` seconds in all."""

    def __init__(self, score, letters, *, ahead: int, most_s: float) -> None:
        super().__init__(score, ahead=ahead)
        self.left_s, self.letters = most_s, letters

    def collect(self):
        begun = time.monotonic()
        while self.letters._asked is not None and self.letters._answers.empty() and self.left_s > 0:
            time.sleep(0.001)
            self.left_s, begun = self.left_s - (time.monotonic() - begun), time.monotonic()
        return super().collect()


def with_model(within="uniform", *, url="", earlier=(), kept=0, told_before=0, budget=BUDGET, source=None):
    found = []
    where = Endpoint("m", url, "the-key-0123456789") if url else None
    letters = Correspondence(where, earlier=earlier, kept=kept, keep=found.append)
    strategy = WithLanguageModel(
        make_strategy(within, SPACE, seed=3),
        {"tiles": replace(TASK, source=source)},
        letters,
        model="m",
        preset="full",
        seed=3,
        trials=trials(budget),
        told_before=told_before,
    )
    return strategy, letters, found


def run(strategy, letters, *, budget=BUDGET, score=score_us, ahead=3, notebook=None, most_s=LIMIT_S):
    notebook = notebook or Notebook()
    evaluator = Patient(score, letters, ahead=ahead, most_s=most_s)
    best = search(strategy, evaluator, notebook, "run", budget=budget)
    strategy.close()
    return best, notebook


def of_pairs(notebook: Notebook) -> Counter:
    return Counter(each.operator for each in notebook.proposals if each.operator in (MODEL_EDIT, RANDOM_EDIT))


def test_edits_and_as_many_random_ones_of_the_same_size_are_proposed_and_the_exchange_is_kept() -> None:
    with loopback.loopback(loopback.good) as server:
        strategy, letters, kept = with_model(url=server.url)
        _, notebook = run(strategy, letters)
    made = of_pairs(notebook)
    assert made[MODEL_EDIT] >= 2
    assert made[RANDOM_EDIT] == made[MODEL_EDIT]
    genomes = {each.genome.id: each.genome.as_dict() for each in notebook.proposals}
    changed: dict[str, list[int]] = {MODEL_EDIT: [], RANDOM_EDIT: []}
    for each in notebook.proposals:
        if each.operator in changed:
            (parent,) = each.parents
            before = genomes[parent]
            differing = [gene for gene, value in each.genome.values if before.get(gene, value) != value]
            changed[each.operator].append(len(differing))
    assert changed[MODEL_EDIT] == changed[RANDOM_EDIT]
    assert {each.status for each in kept} == {ANSWERED}
    children = {edit.child for each in kept for edit in each.edits if edit.verdict == VALID}
    assert {each.genome.id for each in notebook.proposals if each.operator == MODEL_EDIT} <= children
    assert all(0 <= each.asked_at <= each.taken_at for each in kept)


def test_edits_of_a_text_are_proposed_with_random_genes_beside_and_the_strategy_never_hears_of_them() -> None:
    with loopback.loopback(loopback.some_lines) as server:
        strategy, letters, kept = with_model("evolution", url=server.url, source=SOURCE)
        told, tell = [], strategy._within.tell
        strategy._within.tell = lambda *outcome: (told.append(outcome[0].genome), tell(*outcome))
        _, notebook = run(strategy, letters)
        prompts = [json.loads(body)["messages"][1]["content"] for _, _, body in server.requests]
    made = of_pairs(notebook)
    assert made[MODEL_EDIT] >= 2
    assert made[RANDOM_EDIT] == made[MODEL_EDIT]
    genomes = {each.genome.id: each.genome for each in notebook.proposals}
    of_model = [each for each in notebook.proposals if each.operator == MODEL_EDIT]
    of_chance = [each for each in notebook.proposals if each.operator == RANDOM_EDIT]
    for edit, control in zip(of_model, of_chance, strict=True):
        (parent,) = (genomes[each] for each in edit.parents)
        assert edit.genome.edits[: len(parent.edits)] == parent.edits
        assert edit.genome.root == parent.root
        assert control.parents == edit.parents
        changed = set(control.genome.values) - set(parent.values)
        assert len(changed) >= 1
        assert not control.genome.edits
    assert not any(genome.edits for genome in told)
    assert all("```cuda\nline 0;" in said for said in prompts)
    assert "Genes of this kernel family" not in prompts[0]
    strategy, letters, _ = with_model("evolution", earlier=kept, source=SOURCE)
    _, repeated = run(strategy, letters)
    assert repeated.proposals == notebook.proposals


@pytest.mark.parametrize("name", USELESS)
@pytest.mark.parametrize("source", [None, SOURCE], ids=["genes", "source"])
@pytest.mark.sample(14)
def test_with_a_useless_endpoint_the_search_is_what_it_is_without_one(name: str, source) -> None:
    alone = spend(make_strategy("uniform", SPACE, seed=3), BUDGET, ahead=3)
    with loopback.loopback(USELESS[name]) as server:
        strategy, letters, kept = with_model(url=server.url, source=source)
        _, notebook = run(strategy, letters, most_s=0.1)
        until(lambda: len(server.requests) >= max(len(kept), 1), what="the arrival of what was asked")
        asked = len(server.requests)
    assert notebook.proposals == alone.proposals
    assert asked <= MOST_USELESS
    assert not any(edit.verdict == VALID for each in kept for edit in each.edits)
    assert "the-key" not in repr(kept) + repr(letters.__dict__)


def test_edits_that_never_help_cost_a_twentieth_of_the_budget() -> None:
    with loopback.loopback(loopback.good) as server:
        strategy, letters, _ = with_model(url=server.url)
        slowest = iter(range(10, 1000))
        _, notebook = run(strategy, letters, score=lambda genome: float(next(slowest)))
    assert 2 <= of_pairs(notebook).total() <= BUDGET / 20


def test_edits_that_help_earn_more_than_that() -> None:
    # What the model changes is the faster the more is changed; what anybody else changes is not.
    mine: set[str] = set()

    def score(genome):
        return 5.0 / (1 + len(mine)) if genome.id in mine else 20.0

    with loopback.loopback(loopback.good) as server:
        strategy, letters, _ = with_model(url=server.url)
        before = letters.note

        def note(exchange):
            mine.update(edit.child for edit in exchange.edits if edit.verdict == VALID)
            before(exchange)

        letters.note = note
        _, notebook = run(strategy, letters, score=score)
    assert of_pairs(notebook).total() > BUDGET / 10


@pytest.mark.parametrize("within", ["uniform", "surrogate", "evolution"])
@pytest.mark.sample(2)
def test_a_replay_proposes_the_same_without_an_endpoint(within: str) -> None:
    with loopback.loopback(loopback.good) as server:
        strategy, letters, kept = with_model(within, url=server.url, budget=60)
        _, notebook = run(strategy, letters, budget=60)
    assert of_pairs(notebook)[MODEL_EDIT]
    strategy, letters, again = with_model(within, earlier=kept, budget=60)
    _, repeated = run(strategy, letters, budget=60)
    assert repeated.proposals == notebook.proposals
    assert [each.edits for each in again] == [each.edits for each in kept if each.status == ANSWERED]


@pytest.mark.parametrize("stop", [7, 25])
def test_a_replay_that_was_cut_goes_on_as_an_unbroken_one(stop: int) -> None:
    with loopback.loopback(loopback.good) as server:
        strategy, letters, kept = with_model("evolution", url=server.url, budget=60)
        _, notebook = run(strategy, letters, budget=60)
    strategy, _, own = with_model("evolution", earlier=kept, budget=60)
    broken = cut(strategy, 60, at=stop, ahead=3)
    strategy, letters, more = with_model("evolution", earlier=kept, kept=len(own), budget=60)
    run(strategy, letters, budget=60, notebook=broken)
    assert broken.proposals == notebook.proposals
    assert [each.answer for each in (*own, *more)] == [each.answer for each in kept]


def test_a_search_that_was_cut_goes_on_with_what_was_answered_and_asks_anew() -> None:
    with loopback.loopback(loopback.good) as server:
        strategy, letters, kept = with_model(url=server.url)
        _, first = run(strategy, letters, budget=40)
        told = len(first.rows)
        strategy, letters, more = with_model(url=server.url, earlier=kept, kept=len(kept), told_before=told)
        _, notebook = run(strategy, letters, notebook=first)
    assert notebook.proposals[:told] == first.proposals[:told]
    assert len(notebook.rows) == BUDGET
    assert all(each.asked_at >= 40 - 3 for each in more)
    assert len({each.genome for each in notebook.proposals}) == BUDGET


def test_a_server_that_takes_no_schema_is_asked_without_one() -> None:
    with loopback.loopback(loopback.schema_refused) as server:
        strategy, letters, kept = with_model(url=server.url)
        letters._not_before_s = 0.0
        _, notebook = run(strategy, letters)
    assert [each.status for each in kept[:2]] == ["HTTP 400", ANSWERED]
    assert of_pairs(notebook)[MODEL_EDIT] >= 1


def test_an_endpoint_that_fails_is_asked_three_times_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evoflash.llm.correspondence._FIRST_PAUSE_S", 0.0)
    with loopback.loopback(loopback.bad_gateway) as server:
        strategy, letters, kept = with_model(url=server.url)
        run(strategy, letters)
        assert len(server.requests) == len(kept) == MOST_FAILURES
    assert letters.is_over
