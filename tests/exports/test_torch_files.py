"""The exports "torch" and "hub" load and answer where evoflash cannot be imported; no GPU."""

import subprocess
import sys
import tomllib
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from exported_cases import exported
from tables import data

from evoflash.errors import UsageError
from evoflash.evaluation import Basis, Evaluation, Rung, Status, Timing, Verdict
from evoflash.exports.hub import VARIANT, kernel_name, write
from evoflash.exports.kinds import kind_of
from evoflash.exports.launch_json import artefact
from evoflash.written_files import replacing

# Runs in a Python that has PyTorch and cannot import evoflash: a name that is None fails to import.
ALONE = data(__file__, "ALONE")


@cache
def made():
    return artefact(exported("direct"))


def alone(folder: Path, text: str) -> str:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    words = [sys.executable, "-I", "-W", "ignore", "-c", ALONE + text, str(folder)]
    ended = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=200, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.slow
def test_one_file_is_all_that_a_program_needs(tmp_path):
    kind_of(None, str(tmp_path / "mine_torch_op.py")).write(exported("direct"), tmp_path / "mine_torch_op.py")

    said = alone(tmp_path, data(__file__, "one_file_is_all_that_a_program_needs_text"))

    assert said.splitlines() == [
        "the tensors are on cpu, the kernel runs on a GPU: move them there.",
        "mine",
    ]


@pytest.mark.full
def test_two_files_and_two_copies_of_one_live_side_by_side(tmp_path):
    for name, case in (("one", "direct"), ("again", "direct"), ("other", "plain")):
        kind_of("torch", name).write(exported(case), tmp_path / f"{name}.py")

    said = alone(tmp_path, data(__file__, "two_files_and_two_copies_of_one_live_side_by_side_text"))

    assert said.split() == ["True", "False"]


def test_a_file_says_what_it_is_and_what_it_was_checked_on():
    from evoflash.exports.one_file import text_of

    case, verdict = exported("direct"), Verdict("w", True, 3e-4, 0.0, 0.0, 1.0)
    timing = Timing("w", "final-cold", 2.5, 2.4, 2.6, 30)
    where = (str(case.problem), "h200", Basis.MEASURED, Status.CORRECT, Rung.DONE)
    checked = Evaluation(case.genome, *where, verdicts=(verdict,) * 7, timings=(timing,), score_us=2.5)

    known = text_of("torch", (artefact(replace(case, evaluation=checked)),), "mine")
    unknown = text_of("torch", (made(),), "mine")

    assert f"# kernel    flash_direct {case.genome.id}" in known
    assert "# verified  correct; 7 checks, relative error at most 0.0003" in known
    assert "# timing    2.50 us (measured), final-cold, w" in known
    assert "# licence   Apache-2.0" in known
    assert "not by this database" in unknown
    assert "from evoflash" not in known
    assert "import evoflash" not in known


def test_an_estimate_is_marked_as_one():
    from evoflash.exports.claims import facts

    timing = {"basis": "estimated", "median_us": 3.0, "protocol": "model", "workload": "w"}

    lines = dict(facts({**made().description, "timings": [timing]}))

    assert lines["timing"] == "~3.00 us (ESTIMATED, never measured), model, w"


# ---- hub


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exports") / "hub"
    kind_of(None, str(folder)).write(exported("direct"), folder)
    return folder


def test_the_folder_is_one_that_the_hub_takes(hub):
    rust = pytest.importorskip("kernels._rust", reason="kernels is not installed")

    metadata = rust.Metadata.read_from_file(hub / "build" / VARIANT / "metadata.json")
    build = rust.Build.open(hub)

    assert str(metadata.backend.backend_type) in ("CUDA", "Backend.CUDA", "cuda")
    assert metadata.backend.archs == ["9.0a"]
    assert metadata.python_depends == []
    assert build.general is not None
    assert kernel_name(made()) in (hub / "README.md").read_text()
    assert tomllib.loads((hub / "build.toml").read_text())["torch-noarch"] == {
        "pyext": ["py", "json", "cubin"]
    }


def test_what_is_built_and_what_it_is_built_of_are_the_same(hub):
    python_name = kernel_name(made()).replace("-", "_")
    built, source = hub / "build" / VARIANT, hub / "torch-ext" / python_name

    names = {path.name for path in source.iterdir()}

    assert {"__init__.py", "launch.json", "kernel.cubin", "torch_op.py"} < names
    assert all((built / name).read_bytes() == (source / name).read_bytes() for name in names)


def test_its_modules_import_only_the_standard_library_torch_and_one_another(hub):
    import ast

    allowed = {*sys.stdlib_module_names, "torch"}
    for path in (hub / "build" / VARIANT).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            outside = {name.split(".")[0] for name in names} - allowed
            # The door to Transformers opens when its user, who has Transformers, asks for it.
            assert outside <= ({"transformers"} if path.name == "torch_doors.py" else set()), path.name


@pytest.mark.full
def test_the_folder_loads_with_kernels_from_a_local_path(hub):
    pytest.importorskip("kernels._rust", reason="kernels is not installed")

    said = alone(hub.parent, data(__file__, "the_folder_loads_with_kernels_from_a_local_path_text"))

    assert "float16, head_dim 64, one query head for each key/value head, no mask" in said


@pytest.mark.full
def test_older_versions_of_kernels_find_the_package_inside(hub):
    python_name = kernel_name(made()).replace("-", "_")

    said = alone(
        hub.parent,
        f"""
site.addsitedir(sys.argv[1] + "/hub/build/{VARIANT}")
import {python_name} as kernel
assert torch.equal(kernel.attention(q, k, v, fallback=True), right)
print(sorted(kernel.__all__)[:2])
""",
    )

    assert said.strip() == "['Attention', 'Kernel']"


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")

    with pytest.raises(UsageError, match="choose another path"):
        write(exported("direct"), tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_exporting_again_replaces_an_export(hub):
    before = {
        path: path.read_bytes() for path in hub.rglob("*") if path.suffix in (".md", ".py", ".json", ".cubin")
    }
    (hub / "README.md").write_text("old, and notes of my own")

    with pytest.raises(UsageError, match="was edited since: choose another path, or replace it with --force"):
        write(exported("direct"), hub)
    assert (hub / "README.md").read_text() == "old, and notes of my own"
    with replacing():
        write(exported("direct"), hub)

    assert len(before) > 20
    assert {path: path.read_bytes() for path in before} == before
