"""Answers judged against a space: what is valid, and what each mistake is counted as. Nothing is repaired."""

import json
from functools import partial

import pytest
from strategy_cases import SPACE
from tables import table_of_cases

from evoflash.llm.answers import MOST, edits_of, gene_edit
from tests.llm.loopback import proposals

BEST = SPACE.genome({"warps": 4, "k_stages": 2, "rescale": "lazy"})
SHOWN = {"K1": BEST, "K2": SPACE.genome({"warps": 2})}


def verdicts(answer: str, *, known=()) -> list[str]:
    judge = partial(gene_edit, shown=SHOWN, space=SPACE)
    found = edits_of(answer, judge, lambda genome: genome in known)
    assert all((child is not None) == (edit.verdict == "valid") for edit, child in found)
    assert all(SPACE.is_valid(child) for _, child in found if child is not None)
    json.dumps([edit.genes for edit, _ in found])
    return [edit.verdict for edit, _ in found]


@table_of_cases()
def test_an_edit_is_valid_or_counted_by_its_mistake(
    kernel: str | None, genes: dict[str, object], verdict: str
) -> None:
    assert verdicts(proposals(("K1" if kernel is None else kernel, genes))) == [verdict]


@table_of_cases()
def test_an_answer_that_is_none_is_one_malformed_edit(answer: str) -> None:
    assert verdicts(answer) == ["malformed"]


@pytest.mark.parametrize("answer", ["[" * 99_999, '{"proposals":' * 9_999, "{" + "9" * 9_999, ""])
def test_an_answer_made_to_break_its_reader_is_malformed(answer: str) -> None:
    assert verdicts(answer) == ["malformed"]


def test_repetitions_and_what_was_proposed_before_are_duplicates_and_the_rest_is_surplus() -> None:
    edit = ("K1", {"warps": 2})
    assert verdicts(proposals(edit, edit)) == ["valid", "duplicate"]
    child = SPACE.genome({**BEST.as_dict(), "warps": 2})
    assert verdicts(proposals(edit), known={child}) == ["duplicate"]
    found = verdicts(proposals(*[edit] * 1000))
    assert (len(found), found.count("surplus")) == (1000, 1000 - MOST)


def test_a_gene_that_is_named_twice_is_counted_as_that() -> None:
    said = json.loads(proposals(("K1", {"warps": 2})))
    said["proposals"][0]["edits"] *= 2
    assert verdicts(json.dumps(said)) == ["gene named twice"]


def test_words_around_the_first_object_are_passed_over() -> None:
    said = f"Here you are:\n```json\n{proposals(('K2', {'warps': 4}))}\n``` rm -rf / {{}}"
    assert verdicts(said) == ["valid"]
