"""What a test run has, in which order: of a product no case that others show, of GPU tests lone ones last."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT, environment
from tables import data

PRODUCT = data(__file__, "PRODUCT")

SAMPLED = data(__file__, "SAMPLED")

GPU_TEST = data(__file__, "GPU_TEST")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n  cover: of a product\n  full: a case\n  sample: so many\n"
    )
    (tmp_path / "test_product.py").write_text(PRODUCT)
    return tmp_path


def collected(folder: Path, *options: str) -> list[str]:
    """The cases that a run would have, by what stands between the brackets of their names."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *options]
    alone = environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")  # half of the time would go into loading others'
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=alone, check=True).stdout
    return [line.partition("[")[2].rstrip("]") for line in done.splitlines() if "[" in line]


def test_of_a_product_the_default_run_has_every_value_in_as_few_cases_as_can_be(project: Path) -> None:
    cases = [case.split("-") for case in collected(project)]

    assert len(cases) == 4
    assert [set(values) for values in zip(*cases, strict=True)] == [{"True"}, {*"1234"}, {*"pqr"}]


def test_with_full_a_run_has_the_whole_product(project: Path) -> None:
    assert len(set(collected(project, "--full"))) == 24


@pytest.mark.parametrize(
    ("names", "kept"), [("abcdefgh", ["a", "c", "f"]), ("abc", ["a", "b", "c"]), ("ab", ["a", "b"])]
)
@pytest.mark.sample(1)
def test_of_a_sampled_test_the_default_run_has_so_many_cases_evenly(
    project: Path, names: str, kept: list[str]
) -> None:
    (project / "test_product.py").write_text(SAMPLED.format(names=", ".join(f'"{name}"' for name in names)))

    assert collected(project) == kept
    assert collected(project, "--full") == [*names]


def test_where_there_is_a_gpu_what_times_in_turns_comes_late_and_what_runs_alone_last(tmp_path: Path) -> None:
    present = "\n\ndef _gpu_present() -> bool:\n    return True\n"
    (tmp_path / "conftest.py").write_text((ROOT / "conftest.py").read_text() + present)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n  gpu: needs one\n  alone_on_gpu: alone\n  takes_turns: times\n"
    )
    for name in ("a", "b", "c"):
        mark = {"a": "@pytest.mark.alone_on_gpu", "b": "@pytest.mark.takes_turns"}.get(name, "")
        (tmp_path / f"test_{name}.py").write_text(GPU_TEST.format(name=name, mark=mark))

    assert collected(tmp_path) == ["c", "b", "a"]
