"""Exported files on a GPU: built by nvcc without a warning, each finds itself right in both layouts."""

import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from scripts.validation.exports import CASES, PROBLEM, run

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc, of CUDA 12.5 or later"),
]


@pytest.fixture(scope="module")
def outcomes(programs):
    """All of them at once: the right answers are each program's own, by the CPU."""
    with ThreadPoolExecutor(len(CASES)) as threads:
        ended = threads.map(lambda built: run(built.result()), programs.values())
        return dict(zip(programs, ended, strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_exported_program_is_right_in_both_layouts_and_with_another_scale(case, outcomes):
    outcome = outcomes[case.name]
    print(f"\n{outcome.said}", end="")

    assert outcome.is_right
    for checked in ("BHSD  correct", "BSHD  correct"):
        assert outcome.said.count(checked) == len(PROBLEM.split("+"))
    assert outcome.said.count("correct") == 3 * len(PROBLEM.split("+"))
