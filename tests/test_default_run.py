"""What the default test run leaves out of a product of cases: nothing that no other case shows."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT, environment

PRODUCT = """
import pytest

@pytest.mark.cover
@pytest.mark.parametrize("a", ["p", "q", "r"])
@pytest.mark.parametrize("b", [1, 2, 3, 4])
@pytest.mark.parametrize("c", [True, pytest.param(False, marks=pytest.mark.full)])
def test_product(a, b, c):
    pass
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  cover: of a product\n  full: a case\n")
    (tmp_path / "test_product.py").write_text(PRODUCT)
    return tmp_path


def collected(folder: Path, *options: str) -> list[str]:
    """The cases that a run would have, by what stands between the brackets of their names."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *options]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=environment(), check=True
    ).stdout
    return [line.partition("[")[2].rstrip("]") for line in done.splitlines() if "[" in line]


def test_of_a_product_the_default_run_has_every_value_in_as_few_cases_as_can_be(project: Path) -> None:
    cases = [case.split("-") for case in collected(project)]

    assert len(cases) == 4
    assert [set(values) for values in zip(*cases, strict=True)] == [{"True"}, {*"1234"}, {*"pqr"}]


def test_with_full_a_run_has_the_whole_product(project: Path) -> None:
    assert len(set(collected(project, "--full"))) == 24
