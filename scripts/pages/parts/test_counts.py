"""Tests of the numbers in sentences and of the tables that are made of the code."""

import pytest

from scripts.pages import readme
from scripts.pages.parts import code_map, counts
from scripts.pages.parts.counts import Count, counted


@pytest.fixture
def one_count(monkeypatch):
    monkeypatch.setattr(counts, "COUNTS", (Count("page.md", "there are {} of them", lambda: 1234),))


def test_a_stale_number_in_a_sentence_is_replaced(one_count):
    assert counted("page.md", "Here there are 7 of them.") == "Here there are 1,234 of them."


def test_a_sentence_that_was_reworded_is_an_error_that_names_page_and_words(one_count):
    with pytest.raises(ValueError, match=r"page\.md.*there are \{\} of them"):
        counted("page.md", "Here are 7 of them.")


def test_the_sentences_of_other_pages_are_left_alone(one_count):
    assert counted("other.md", "there are 7 of them") == "there are 7 of them"


def test_a_page_without_a_marker_for_its_table_is_an_error():
    with pytest.raises(ValueError, match="<!-- families -->"):
        readme.updated("docs/families.md", "no marker")


def test_a_family_is_listed_with_its_genes_and_head_dimensions():
    (row,) = (line for line in code_map.families().splitlines() if line.startswith("| `flash_direct` |"))

    assert row.endswith("| 12 | 10 | sm_80+ | 64, 128 |")


def test_every_package_and_layer_of_the_code_is_on_the_map():
    listed = code_map.packages()

    assert all(f"| `evoflash/{name}` |" in listed for name in ("cli/", "gpu/", "search.py", "errors.py"))
    assert code_map.layers().startswith("```\n__main__\ncli\n")
