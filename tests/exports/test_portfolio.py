"""The exported package: its files, its members, and a Python without evoflash that imports it."""

import ast
import json
import subprocess
import sys

import pytest
from portfolio_cases import chosen_from, needs_torch, table_of
from tables import data

from evoflash.app.portfolio.run import package_of
from evoflash.errors import UsageError
from evoflash.exports.portfolio import by_members, write
from evoflash.runtime.dispatch import Dispatcher
from evoflash.runtime.launch import Kernel

TIMES = [[10.0, 20.0], [40.0, 20.0], [9.0, 5.0]]
USE = data(__file__, "USE")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("package")
    write(package_of(chosen_from(table_of(TIMES), path)), path / "fast_attention")
    return path / "fast_attention"


def test_each_member_is_a_kernel_that_the_launcher_reads(folder):
    description = json.loads((folder / "portfolio.json").read_text())

    assert len(description["members"]) == 2
    for member in description["members"]:
        kernel = Kernel.read(folder / member["folder"])
        assert kernel.description["kernel"]["genome"] == member["kernel"]


def test_the_rule_in_the_package_names_its_members(folder):
    description = json.loads((folder / "portfolio.json").read_text())
    dispatcher = Dispatcher(description["rule"])

    for shape in description["shapes"]:
        words = dict(word.partition("=")[::2] for word in shape["problem"].split(","))
        sizes = tuple(int(words[name]) for name in ("b", "h", "hkv", "sq", "skv"))
        number = dispatcher.kernel(int(words["d"]), words["dtype"], "causal" in words, sizes)
        assert description["members"][number]["kernel"] == shape["kernel"]


def test_a_kernel_for_two_compile_keys_is_two_members():
    points = {"points": [[8, 128, 128, 1], [8, 512, 512, 0]]}
    keys = [{"head_dim": d, "dtype": "fp16", "causal": False, "gqa_ratio": 1, **points} for d in (64, 128)]

    rule, members = by_members({"version": 1, "reach": 2.0, "keys": keys})

    assert [kernel for kernel, _ in members] == [0, 1, 0, 1]
    assert [key[0] for _, key in members] == [64, 64, 128, 128]
    assert [point[3] for key in rule["keys"] for point in key["points"]] == [1, 0, 3, 2]


@needs_torch
def test_the_package_computes_in_a_python_without_evoflash(folder):
    done = subprocess.run(
        [sys.executable, "-I", "-c", USE, str(folder.parent)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.stdout == "fine\n", done.stderr


def test_an_export_is_renewed_and_other_files_in_its_folder_stay(tmp_path):
    found = chosen_from(table_of(TIMES), tmp_path)
    target = tmp_path / "fast_attention"
    write(package_of(found), target)
    (target / "notes.txt").write_text("mine")
    (target / "kernels" / "old").mkdir()

    write(package_of(found), target)

    assert (target / "notes.txt").read_text() == "mine"
    assert not (target / "kernels" / "old").exists()
    assert not list(tmp_path.glob(".*.new"))


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    target = tmp_path / "mine"
    target.mkdir()
    (target / "thesis.txt").write_text("years of work")

    with pytest.raises(UsageError, match="choose another path"):
        write(package_of(chosen_from(table_of(TIMES), tmp_path)), target)

    assert [path.name for path in target.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("name", ["fast-attention", "2fast", "a b"])
def test_a_name_that_python_cannot_import_is_refused(tmp_path, name):
    with pytest.raises(UsageError, match="no name of a Python package"):
        write(package_of(chosen_from(table_of(TIMES), tmp_path)), tmp_path / name)


def test_every_module_that_the_package_imports_of_its_own_is_in_it(folder):
    wanted = {
        node.module
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module
    }

    assert "torch_op" in wanted
    assert {name for name in wanted if not (folder / f"{name}.py").exists()} == set()
    assert not any("evoflash" in line for path in folder.glob("*.py") for line in imports(path))


def imports(path):
    return [line for line in path.read_text().splitlines() if line.startswith(("import ", "from "))]
