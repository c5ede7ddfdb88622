"""The house rules that a reader relies on: small folders, modules and signatures; packages name their files.

CONTRIBUTING.md says what the rules are for. import-linter holds the direction of imports (scripts/check).
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST_ENTRIES, MOST_FILES, MOST_POSITIONAL = 40, 16, 6
MOST_LINES, MOST_LINES_OF_THE_TEMPLATE, MOST_LINES_OF_A_PART = 320, 899, 259
MOST_WORDS_OF_THE_README = 1500

LONG_MODULES = {"scripts/acceptance.py": "a list of checks, a few lines each"}
# Triton compiles the function itself and reads its positional parameters only.
TRITON = "evoflash/gpu/baselines/triton_kernel.py"
# Called for every launch of an exported kernel: a keyword costs time that users count.
LAUNCH = "evoflash/runtime/plan.py"
INTERFACES = ("__main__.py", "api", "cli", "torch", "views")
# A process of a private cluster: its stdout is the pipe on which it tells its parent where it listens.
LOOPBACK = "evoflash/evaluators/cluster/loopback_process.py"


def modules(*tops: str) -> list[Path]:
    """Python files of the program and its scripts; tests are left out."""
    found = (path for top in tops for path in sorted((ROOT / top).rglob("*.py")))
    return [path for path in found if not path.name.startswith("test_")]


def packages() -> list[Path]:
    return [path.parent for path in modules("evoflash", "scripts") if path.name == "__init__.py"]


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def entries(folder: Path) -> list[Path]:
    # py.typed is an empty marker that type checkers want beside __init__.py.
    return [path for path in folder.iterdir() if path.name not in ("__pycache__", "py.typed")]


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def docstring_of(package: Path) -> str:
    return ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""


def unnamed(package: Path) -> list[str]:
    """Modules and folders of a package that its docstring does not mention."""
    docstring = docstring_of(package)
    files = (path for path in package.glob("*.py") if not path.name.startswith(("__", "test_")))
    folders = (path.parent for path in package.glob("*/__init__.py"))
    return [path.stem for path in (*files, *folders) if not re.search(rf"\b{path.stem}\b", docstring)]


def test_no_function_takes_many_positional_arguments() -> None:
    found = [
        f"{named(path)}: {function.name}"
        for path in modules("evoflash", "mutations", "scripts")
        if named(path) not in (TRITON, LAUNCH)
        for function in functions(path)
        if len((*function.args.posonlyargs, *function.args.args)) > MOST_POSITIONAL
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
