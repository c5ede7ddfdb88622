"""Tests of the notebook: it runs without a GPU, and what it shows is what its cells print."""

import copy

import pytest

nbformat = pytest.importorskip("nbformat", reason="notebooks need evoflash's dev extra", exc_type=ImportError)

from scripts.pages.console.notebook import NOTEBOOK, executed, outputs  # noqa: E402


@pytest.fixture(scope="module")
def stored():
    return nbformat.read(NOTEBOOK, as_version=4)


@pytest.mark.slow
def test_the_notebook_shows_what_its_cells_print(stored, tmp_path) -> None:
    assert outputs(executed(NOTEBOOK, tmp_path)) == outputs(stored)


def test_every_cell_that_computes_shows_something(stored) -> None:
    assert all(outputs(stored))


def test_another_time_in_an_output_is_another_output(stored) -> None:
    changed = copy.deepcopy(stored)
    (cell,) = (cell for cell in changed.cells if "progress=print" in cell.source)
    for output in cell.outputs:
        output.text = output.text.replace(" us ", " ms ")

    assert outputs(changed) != outputs(stored)


def test_the_notebook_holds_no_path_of_the_machine_that_made_it() -> None:
    assert "/tmp/" not in NOTEBOOK.read_text(encoding="utf-8")
