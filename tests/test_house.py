"""The house rules that a reader relies on: signatures, names of functions and classes, a short README.

CONTRIBUTING.md says what the rules are for. import-linter holds the direction of imports, and a script the
lists in packages' docstrings (scripts/check).
"""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST_POSITIONAL = 6
MOST_WORDS_OF_THE_README = 1500

# Triton compiles the function itself and reads its positional parameters only.
TRITON = "evoflash/gpu/baselines/attention/triton_kernel.py"
# Called for every launch of an exported kernel: a keyword costs time that users count.
LAUNCH = "evoflash/runtime/attention_dense.py"
# Has the argument lists of engines' own functions.
ENGINES = "evoflash/runtime/paged_adapters.py"
INTERFACES = ("__main__.py", "api", "cli", "torch", "views")
# A process of a private cluster: its stdout is the pipe on which it tells its parent where it listens.
LOOPBACK = "evoflash/evaluators/cluster/serving.py"

Function = ast.FunctionDef | ast.AsyncFunctionDef

# Past participles that do not end in "ed", as far as code has used them for names.
IRREGULAR = re.compile(
    "begun|broken|brought|built|chosen|dealt|done|drawn|driven|fallen|felt|found|given|gone|grown|held|hidden|"
    "kept|known|laid|led|left|lent|lost|made|meant|met|paid|risen|said|seen|sent|shown|sold|sought|spent|spoken|"
    "stood|taken|thought|thrown|told|understood|won|worn|written"
)
OTHER_WORDS = re.compile("bed|embed|exceed|feed|need|proceed|red|seed|shed|speed")  # that end so, too
# What users' files and exported files call: (class, why it may stand twice).
SHARED_CLASS_NAMES = {
    "Attention": "the call of an exported file, with and without PyTorch",
    "Kernel": "evoflash.Kernel, and the same word in exported files, which have no evoflash",
}


# "Refused" is what users of exported files catch: `from runtime.launch import Kernel, Refused`.
PARTICIPLES = {"evoflash/runtime/description.py: Refused"}


def modules(*tops: str) -> list[Path]:
    """Python files of the program and its scripts; tests are left out."""
    found = (path for top in tops for path in sorted((ROOT / top).rglob("*.py")))
    return [path for path in found if not path.name.startswith("test_")]


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def definitions(path: Path) -> tuple[Function | ast.ClassDef, ...]:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return tuple(node for node in nodes if isinstance(node, Function | ast.ClassDef))


def is_participle(word: str) -> bool:
    return bool(IRREGULAR.fullmatch(word)) or (word.endswith("ed") and not OTHER_WORDS.fullmatch(word))


def test_no_function_takes_many_positional_arguments() -> None:
    found = [
        f"{named(path)}: {node.name}"
        for path in modules("evoflash", "mutations", "scripts")
        if named(path) not in (TRITON, LAUNCH, ENGINES)
        for node in definitions(path)
        if isinstance(node, Function) and len((*node.args.posonlyargs, *node.args.args)) > MOST_POSITIONAL
    ]

    assert found == []


def writes_to_terminal(node: ast.AST) -> bool:
    """Whether it is a `print` that goes to stdout, or one of sys's two streams."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
        return not any(keyword.arg == "file" for keyword in node.keywords)
    is_stream = isinstance(node, ast.Attribute) and node.attr in ("stdout", "stderr")
    return is_stream and isinstance(node.value, ast.Name) and node.value.id == "sys"


def test_only_interfaces_and_views_write_to_the_terminal() -> None:
    found = [
        f"{named(path)}:{node.lineno}"
        for path in modules("evoflash")
        if path.relative_to(ROOT).parts[1] not in INTERFACES and named(path) != LOOPBACK
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if writes_to_terminal(node)
    ]

    assert found == []


def test_no_participle_stands_alone_as_the_name_of_a_function_or_a_class() -> None:
    found = {
        f"{named(path)}: {node.name}"
        for path in modules("evoflash")
        for node in definitions(path)
        if "_" not in (word := node.name.strip("_").lower()) and is_participle(word)
    }

    assert found == PARTICIPLES


def test_a_class_name_stands_once_in_the_package() -> None:
    places = defaultdict(list)
    for path in modules("evoflash"):
        for node in definitions(path):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(named(path))

    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert {name: where for name, where in twice.items() if name not in SHARED_CLASS_NAMES} == {}


@pytest.mark.parametrize("top", ["scripts", "tests"])
def test_nothing_changes_where_modules_are_looked_for(top: str) -> None:
    found = [
        f"{named(path)}:{number}"
        for path in sorted((ROOT / top).rglob("*.py"))
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"\bsys\.path\b", line)
    ]

    assert found == []


def test_the_readme_is_read_in_a_few_minutes() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= MOST_WORDS_OF_THE_README


def test_no_kernel_has_a_lambda_of_any_type() -> None:
    """NVRTC 13.0 takes what it calls for a host function; 13.5 compiles it."""
    host = {"templates/lib/launcher.cu.j2"}  # of an exported program
    found = {
        named(path)
        for path in (ROOT / "templates").rglob("*.j2")
        if re.search(r"\]\s*\([^)]*\bauto\b", path.read_text(encoding="utf-8"))
    }

    assert found == host
