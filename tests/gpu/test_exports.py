"""Exported files on a GPU: built by nvcc without a warning, each finds itself right in both layouts."""

import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from scripts.validation.exports import CASES, PROBLEM, build_and_run

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc, of CUDA 12.5 or later"),
]


@pytest.fixture(scope="module")
def outcomes(spec, tmp_path_factory):
    """All of them at once: nvcc takes a core for seconds each, the program a moment."""
    folder = tmp_path_factory.mktemp("exports")

    def outcome_of(case):
        (folder / case.name).mkdir()
        return build_and_run(case, spec, folder / case.name)

    with ThreadPoolExecutor(len(CASES)) as threads:
        return dict(zip((case.name for case in CASES), threads.map(outcome_of, CASES), strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_exported_program_is_right_in_both_layouts_and_with_another_scale(case, outcomes):
    outcome = outcomes[case.name]
    print(f"\n{outcome.said}", end="")

    assert outcome.is_right
    for checked in ("BHSD  correct", "BSHD  correct"):
        assert outcome.said.count(checked) == len(PROBLEM.split("+"))
    assert outcome.said.count("correct") == 3 * len(PROBLEM.split("+"))
