"""What each kind of export writes, as it was; of the runtime's modules and of kernel.cu digests are kept.

Machine code hangs on the compiler that is installed: other bytes stand for it, in golden texts alone.
"""

import hashlib
import json
import re
from dataclasses import replace
from functools import cache

import pytest
from exported_cases import exported
from portfolio_cases import chosen_from, table_of

from evoflash import __version__
from evoflash.app.portfolio.run import package_of
from evoflash.exports import flashinfer_solution, hub, kernel_cu, one_file, portfolio
from evoflash.exports.launch_json import artefact

CASES = {"plain": "plain", "maps": "splits and tensor maps"}
TIMES = [[10.0, 20.0], [40.0, 20.0], [9.0, 5.0]]
CODE = b"machine code"


@cache
def made(case):
    """The artefact of a case with the same machine code everywhere."""
    found = artefact(exported(CASES[case]), command="evoflash export ...")
    return replace(
        found, description=without_compiler(found.description), images=dict.fromkeys(found.images, CODE)
    )


def without_compiler(description):
    decided = {"sha256": "0" * 64, "bytes": len(CODE), "registers": 0, "compiler": "NVRTC"}
    images = {arch: {**image, **decided} for arch, image in description["images"].items()}
    return {**description, "images": images, "evoflash": "0"}


def digest(text):
    return f"sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}, {len(text.splitlines())} lines\n"


def shown(files):
    """Files by name, one behind the other; a Python file's joined modules of the runtime are digests."""
    return "".join(f"==== {name}\n{without_runtime(name, text)}" for name, text in sorted(files.items()))


def without_runtime(name, text):
    if name.endswith(".py") and "/" in name and not name.endswith("__init__.py"):
        return digest(text)  # a module of the runtime, as it stands
    parts = re.split(r"(?m)^(?=# ---- )", text)
    is_runtime = [part.startswith("# ---- evoflash/runtime/") for part in parts]
    heads = (part.partition("\n")[0] + "\n" for part in parts)
    return "".join(
        head + digest(part) if is_one else part
        for part, head, is_one in zip(parts, heads, is_runtime, strict=True)
    )


@pytest.mark.parametrize("case", CASES)
def test_launch_json_is_as_it_was(case, golden):
    golden(f"exports/launch-{case}.json", json.dumps(made(case).description, indent=2) + "\n")


@pytest.mark.parametrize("case", CASES)
def test_kernel_cu_is_as_it_was(case, golden, tmp_path):
    (path,) = kernel_cu.write(exported(CASES[case]), tmp_path / "kernel.cu")
    text = path.read_text().replace(f"evoflash {__version__}", "")
    golden(f"exports/kernel-{case}.cu.sha256", digest(text))


@pytest.mark.parametrize(("library", "name"), [("cupy", "cupy_file"), ("torch", "torch_op")])
def test_python_files_are_as_they_were(library, name, golden):
    text = one_file.text_of(library, (made("plain"),), "attention")
    golden(f"exports/{name}.txt", shown({"attention.py": text}))


def test_the_folder_for_the_hub_is_as_it_was(golden):
    golden("exports/hub.txt", shown(hub.files_of(made("plain"))[0]))


def test_a_solution_and_its_definition_are_as_they_were(golden):
    case = exported("plain")
    solution = flashinfer_solution.solution(case, "name", "solution.json")
    (source,) = solution.pop("sources")
    assert source["content"].endswith(flashinfer_solution.solution_form(case).run)
    golden("exports/solution.json", json.dumps([solution, flashinfer_solution.definition(case)], indent=1))


def test_a_portfolio_is_as_it_was(golden, tmp_path):
    portfolio.write(package_of(chosen_from(table_of(TIMES), tmp_path)), tmp_path / "fast_attention")
    files = sorted(path for path in (tmp_path / "fast_attention").rglob("*") if path.suffix != ".cubin")
    texts = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in files if path.is_file()}
    for name in [name for name in texts if name.endswith("launch.json")]:
        texts[name] = json.dumps(without_compiler(json.loads(texts[name])), indent=2) + "\n"
    name = "fast_attention/portfolio.json"
    texts[name] = json.dumps({**json.loads(texts[name]), "evoflash": "0"}, indent=1) + "\n"
    golden("exports/portfolio.txt", shown(texts))
