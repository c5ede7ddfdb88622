"""`evoflash new`: each of the four files works as it is written, with the test that is written beside it."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

from evoflash.cli import program as cli
from evoflash.specs import load_gpu, read_gpu

KINDS = ("family", "mutation", "gpu", "strategy")


def new(*arguments: str) -> int:
    """The command, in this process; its exit code."""
    try:
        return cli.run_command(["new", *arguments])
    except SystemExit as end:
        return int(end.code or 0)


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    """An extension folder with one new file of each kind."""
    folder = tmp_path_factory.mktemp("own")
    for kind in KINDS:
        assert new(kind, f"fresh_{kind}", "--into", str(folder)) == 0
    return folder


@pytest.mark.slow
@pytest.mark.full
def test_each_new_file_passes_the_test_that_is_written_beside_it(written) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rA", "tests"],
        capture_output=True,
        text=True,
        cwd=written,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )

    assert done.returncode == 0, done.stdout
    for kind in KINDS:
        assert f"PASSED tests/test_{kind}_fresh_{kind}.py" in done.stdout


def test_the_placeholder_is_replaced_everywhere(written) -> None:
    texts = [path.read_text() for path in written.rglob("*") if path.is_file() and "pycache" not in str(path)]

    assert len(texts) == 8
    assert [text for text in texts if "my_name" in text] == []


def test_new_python_files_have_a_docstring(written) -> None:
    for path in (
        *written.glob("mutations/*.py"),
        *written.glob("strategies/*.py"),
        *written.glob("tests/*.py"),
    ):
        assert ast.get_docstring(ast.parse(path.read_text())), path


def test_a_new_gpu_begins_with_the_figures_of_a_shipped_one_and_a_name_of_its_own(written) -> None:
    spec = read_gpu(written / "gpus" / "fresh_gpu.toml")

    assert spec.device_names == ("fresh_gpu",)
    assert spec.sm_count == load_gpu("l4").sm_count


def test_nothing_is_overwritten(written, capsys) -> None:
    before = (written / "gpus" / "fresh_gpu.toml").read_bytes()

    assert new("gpu", "fresh_gpu", "--into", str(written)) == 2
    assert "is there already" in capsys.readouterr().err
    assert (written / "gpus" / "fresh_gpu.toml").read_bytes() == before


def test_where_only_the_test_is_there_nothing_is_written(tmp_path, capsys) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_gpu_mine.py").write_text("mine")

    assert new("gpu", "mine", "--into", str(tmp_path)) == 2
    assert not (tmp_path / "gpus").exists()


@pytest.mark.parametrize(
    ("kind", "name"),
    [("family", "flash_mma"), ("mutation", "nudge"), ("gpu", "l4"), ("strategy", "evolution")],
)
def test_the_name_of_a_shipped_one_is_refused(tmp_path, capsys, kind, name) -> None:
    assert new(kind, name, "--into", str(tmp_path)) == 2
    assert f"a {kind} called '{name}' is there already" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["Mine", "my-own", "1st", "", "a" * 41, "../up", "a b", "é"])
def test_a_bad_name_is_refused(tmp_path, capsys, name) -> None:
    assert new("gpu", name, "--into", str(tmp_path)) == 2
    assert "is no name for a gpu: write a lower-case letter" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_dash_or_an_unknown_kind_is_a_usage_error(tmp_path, capsys) -> None:
    assert new("kernel", "mine", "--into", str(tmp_path)) == 2
    assert list(tmp_path.iterdir()) == []


def test_without_a_folder_the_first_extension_folder_is_used(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("EVOFLASH_EXTENSIONS", str(tmp_path / "not_there_yet"))

    assert new("strategy", "mine") == 0
    assert (tmp_path / "not_there_yet" / "strategies" / "mine.py").is_file()
    assert "export EVOFLASH_EXTENSIONS" not in capsys.readouterr().err


def test_without_any_folder_one_is_made_here_and_the_person_told_how_it_is_found(
    tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)

    assert new("strategy", "mine") == 0
    assert (tmp_path / "evoflash-extensions" / "strategies" / "mine.py").is_file()
    assert f"export EVOFLASH_EXTENSIONS={tmp_path / 'evoflash-extensions'}" in capsys.readouterr().err
