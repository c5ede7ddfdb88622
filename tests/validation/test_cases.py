"""Test inputs with their right answers: computed once a process, and once for all that share a folder."""

import pickle

import numpy as np
import pytest

from evoflash.isolation import IsolatedPool
from evoflash.operations.attention.workload import parse_workload
from evoflash.validation import cases
from evoflash.validation.cases import get_or_publish

WORKLOAD = parse_workload("b=1,h=1,sq=5,skv=9,d=16")


def told(name: str) -> bytes:
    """The case, as another process has it."""
    return pickle.dumps(cases.case(WORKLOAD, name, 3))


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.delenv("EVOFLASH_SHARED_CASES", raising=False)
    cases.case.cache_clear()


def test_a_process_that_shares_the_folder_finds_what_another_computed(tmp_path):
    with IsolatedPool(1, initializer=cases.share_in, initargs=(str(tmp_path),)) as pool:
        first = pool.submit(told, "normal", timeout_s=60).result().value
    (file,) = tmp_path.iterdir()
    inputs, expected = pickle.loads(first)
    marked = type(inputs)("marked", inputs.q, inputs.k, inputs.v)  # so that it shows where it came from
    file.unlink()
    get_or_publish(file, lambda: (marked, expected))
    with IsolatedPool(1, initializer=cases.share_in, initargs=(str(tmp_path),)) as pool:
        again, _ = pickle.loads(pool.submit(told, "normal", timeout_s=60).result().value)
    assert again.name == "marked"


def test_what_is_shared_is_what_would_have_been_computed(tmp_path, monkeypatch):
    drawn, right = cases.draw_case(WORKLOAD, "rising", 3)
    monkeypatch.setenv("EVOFLASH_SHARED_CASES", str(tmp_path))
    cases.case(WORKLOAD, "rising", 3)
    cases.case.cache_clear()
    inputs, expected = cases.case(WORKLOAD, "rising", 3)  # from the file
    assert all((inputs.tensors[name] == drawn.tensors[name]).all() for name in drawn.tensors)
    assert np.array_equal(expected.rows["O"].right, right.rows["O"].right)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_that_is_gone_costs_no_case(tmp_path, monkeypatch):
    monkeypatch.setenv("EVOFLASH_SHARED_CASES", str(tmp_path / "gone"))
    inputs, _ = cases.case(WORKLOAD, "normal", 3)
    assert inputs.name == "normal"
