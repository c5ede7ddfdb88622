"""What a person is told to run can be run: what pip is asked for, which has no evoflash, and nvcc's lines."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from forked import evoflash
from places import ROOT

from evoflash import extras

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_is_its_own_packages(extra: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    words = [f'"{each}"' for each in EXTRAS[extra]]
    assert extras.install(extra).split(maxsplit=2) == ["pip", "install", " ".join(words)]

    # From a wheel there is no pyproject.toml: the metadata of what is installed says the same, in its order.
    metadata = [f"{each}; extra == '{name}'" for name, made in EXTRAS.items() for each in made]
    monkeypatch.setattr(extras, "_PROJECT", tmp_path / "pyproject.toml")
    monkeypatch.setattr(extras.importlib.metadata, "requires", lambda _: ["numpy>=2", *metadata])
    extras._requirements.cache_clear()
    try:
        assert extras.install(extra).split(maxsplit=2)[2] == " ".join(words)
    finally:
        extras._requirements.cache_clear()


def test_no_message_and_no_page_has_pip_look_for_evoflash() -> None:
    files = [*ROOT.glob("evoflash/**/*.py"), *ROOT.glob("docs/*.md"), ROOT / "README.md"]
    hint = re.compile(r"pip install[^`\n]*\bevoflash\[")
    own = ROOT / "evoflash" / "extras.py"  # says why not
    assert [str(file) for file in files if file != own and hint.search(file.read_text())] == []


@pytest.mark.full
def test_the_documented_lines_for_nvcc_compile_a_hopper_export(tmp_path: Path) -> None:
    """Two kernels in one program, as docs/exported-kernels.md has it; and the tutorial's way for one."""
    if shutil.which("nvcc") is None:
        pytest.skip("needs nvcc")
    pages = "".join(file.read_text() for file in ROOT.glob("docs/*.md"))
    (line,) = re.findall(r"^\$ (nvcc .*)$", pages, re.MULTILINE)
    (own,) = re.findall(r"^\$ (sed .* kernel.cu \| sh)$", pages, re.MULTILINE)
    (tmp_path / "main.cpp").write_text("int main() { return 0; }\n")
    hopper = ("export", "--family", "flash_wgmma", "--problem", "mission", "--gpu", "h200")
    for name in ("decode", "prefill"):
        assert evoflash(*hopper, "--prefix", name, "-o", str(tmp_path / f"{name}.cu")).returncode == 0
    assert evoflash(*hopper, "-o", str(tmp_path / "kernel.cu")).returncode == 0

    for command, program in ((line, "program"), (own, "kernel")):
        done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, (tmp_path / program).exists()) == (0, True), done.stderr
