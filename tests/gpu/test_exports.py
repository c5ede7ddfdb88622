"""Exported files on a GPU: built by nvcc without a warning, each finds itself right in both layouts."""

import shutil

import pytest

from scripts.validation.exports import CASES, PROBLEM, build_and_run

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc, of CUDA 12.5 or later"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_exported_program_is_right_in_both_layouts_and_with_another_scale(case, spec, tmp_path):
    outcome = build_and_run(case, spec, tmp_path)
    print(f"\n{outcome.said}", end="")

    assert outcome.is_right
    for checked in ("BHSD  correct", "BSHD  correct"):
        assert outcome.said.count(checked) == len(PROBLEM.split("+"))
    assert outcome.said.count("correct") == 3 * len(PROBLEM.split("+"))
