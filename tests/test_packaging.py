"""What is shipped: the metadata, a wheel that is whole and works by itself, a start that stays light."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from places import ROOT
from tables import data

import evoflash

HEAVY = ("alembic", "cupy", "jinja2", "numpy", "optuna", "sqlalchemy", "torch")
HEAVY_AT_HELP = ("alembic", "cupy", "optuna", "sqlalchemy", "torch")
SHARED = ("templates", "mutations", "db")
PACKAGE_DATA = {
    **dict.fromkeys(("champions", "specs", "trust/selftest/frauds"), "*.toml"),
    **{"app/check": "*.toml", "app": "*.toml"},
    **{"device": "*.h", "emulator/emu": "*.cpp"},
}


@pytest.fixture(scope="module")
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built here: no network, no isolation."""
    folder = tmp_path_factory.mktemp("wheel")
    return Path(next(iter(WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"]))))


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run_python(code: str, *, path: Path, cwd: Path) -> str:
    """Standard output of an interpreter that imports from `path` first, and from no other folder of ours."""
    command = [sys.executable, "-P", "-s", "-c", code]
    variables = {**os.environ, "PYTHONPATH": str(path)}
    done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def shipped(folder: str) -> set[str]:
    """Names of the files of a top-level folder, relative to the root, as they should be shipped."""
    found = (path for path in (ROOT / folder).rglob("*") if path.is_file())
    return {str(path.relative_to(ROOT)) for path in found if "__pycache__" not in path.parts}


def test_the_version_is_written_in_one_place(wheel: Path) -> None:
    assert wheel.name.startswith(f"evoflash-{evoflash.__version__}-")


def test_the_test_tools_are_the_same_for_pip_and_for_uv(pyproject: dict[str, Any]) -> None:
    assert pyproject["project"]["optional-dependencies"]["dev"] == pyproject["dependency-groups"]["dev"]


def test_each_dependency_has_its_line_in_the_readme(pyproject: dict[str, Any]) -> None:
    extras = pyproject["project"]["optional-dependencies"]
    wanted = pyproject["project"]["dependencies"] + extras["cuda12"] + extras["cuda13"] + extras["dev"]
    names = {re.split(r"[^\w-]", requirement)[0] for requirement in wanted}
    documented = set(re.findall(r"`([\w-]+)`", (ROOT / "README.md").read_text()))

    assert names - documented == set()


def test_the_cuda_extras_bring_the_compiler_and_the_headers_of_wmma(pyproject: dict[str, Any]) -> None:
    extras = pyproject["project"]["optional-dependencies"]

    # mma.h includes crt/mma.h: in the crt wheel of CUDA 13, in the nvcc wheel of CUDA 12.
    assert "cuda-toolkit[nvrtc,cudart,crt]==13.*" in extras["cuda13"]
    assert "cuda-toolkit[nvrtc,cudart,nvcc]==12.*" in extras["cuda12"]


@pytest.mark.parametrize("folder", SHARED)
def test_the_wheel_carries_each_shared_folder_whole(wheel: Path, folder: str) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {f"evoflash/_share/{name}" for name in shipped(folder)}

    assert expected
    assert expected - names == set()


@pytest.mark.parametrize("folder", PACKAGE_DATA)
def test_the_wheel_carries_the_data_inside_the_package(wheel: Path, folder: str) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = shipped(f"evoflash/{folder}")

    assert any(Path(name).match(PACKAGE_DATA[folder]) for name in expected)
    assert expected - names == set()


@pytest.mark.parametrize("folder", SHARED)
@pytest.mark.sample(1)
def test_a_copy_that_lacks_a_shared_folder_says_so_in_one_line_and_searches_nothing(
    unpacked: Path, tmp_path: Path, folder: str
) -> None:
    shutil.copytree(unpacked / "evoflash", tmp_path / "evoflash")
    lacking = tmp_path / "evoflash" / "_share" / folder
    shutil.rmtree(lacking)
    words = ["--gpu", "l4", "--family", "flash_simt", "--budget", "1", "--db", str(tmp_path / "a.db"), "-q"]

    done = subprocess.run(
        [sys.executable, "-P", "-s", "-m", "evoflash", "search", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"evoflash: this copy of evoflash is not whole: it lacks {lacking}: "
        "copy that folder too, or install anew.\n"
    )


def test_the_wheel_installs_one_top_level_name(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}

    assert {"evoflash", f"evoflash-{evoflash.__version__}.dist-info"} == tops


def test_the_wheel_has_its_licence_and_its_command(unpacked: Path) -> None:
    info = unpacked / f"evoflash-{evoflash.__version__}.dist-info"

    assert "Apache License" in (info / "licenses" / "LICENSE").read_text()
    assert "evoflash = evoflash.cli.program:main" in (info / "entry_points.txt").read_text()


def test_the_wheel_finds_its_own_folders(unpacked: Path) -> None:
    code = """if True:
        from evoflash import paths as layout
        print(layout.TEMPLATES, layout.MUTATIONS, layout.DB, sep="\\n")
    """

    expected = [str(unpacked / "evoflash" / "_share" / folder) for folder in SHARED]
    assert expected == run_python(code, path=unpacked, cwd=unpacked).splitlines()


def test_every_mutation_operator_imports_from_the_wheel(unpacked: Path) -> None:
    code = data(__file__, "every_mutation_operator_imports_from_the_wheel_text")

    folder = unpacked / "evoflash" / "_share" / "mutations"
    expected = sorted(str(folder / Path(name).name) for name in shipped("mutations"))
    assert expected == sorted(run_python(code, path=unpacked, cwd=unpacked).splitlines())


@pytest.mark.full
def test_the_source_distribution_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    sdist = next(iter(SdistBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])))
    with tarfile.open(sdist) as archive:
        # Python 3.11.0 to 3.11.3 know no filter; later ones warn without it.
        options = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(tmp_path, **options)
    source = next(path for path in tmp_path.iterdir() if path.is_dir())
    rebuilt = next(iter(WheelBuilder(str(source)).build(directory=str(tmp_path), versions=["standard"])))

    assert sorted(zipfile.ZipFile(wheel).namelist()) == sorted(zipfile.ZipFile(rebuilt).namelist())
    assert all((source / name).exists() for name in ("LICENSE", "CHANGELOG.md", "scripts/test", "tests"))


def test_importing_evoflash_imports_nothing_heavy(tmp_path: Path) -> None:
    code = f"""if True:
        import sys
        import evoflash
        print(sorted(set({HEAVY!r}) & set(sys.modules)))
    """

    assert run_python(code, path=ROOT, cwd=tmp_path) == "[]\n"


def test_asking_for_help_does_not_load_the_gpu_stack_nor_the_database(tmp_path: Path) -> None:
    code = f"""if True:
        import sys
        from evoflash.cli.program import main
        sys.argv = ["evoflash", "--help"]
        try:
            main()
        except SystemExit as end:
            assert not end.code, end.code
        print(sorted(set({HEAVY_AT_HELP!r}) & set(sys.modules)))
    """
    lines = run_python(code, path=ROOT, cwd=tmp_path).splitlines()

    assert any("search" in line for line in lines)
    assert lines[-1] == "[]"


@pytest.mark.parametrize("script", ["scripts/evoflash", "scripts/test", "scripts/check", ".ci/run"])
def test_each_script_is_executable_and_valid_bash(script: str) -> None:
    path = ROOT / script

    assert path.stat().st_mode & 0o111
    assert subprocess.run(["bash", "-n", str(path)], check=False).returncode == 0
