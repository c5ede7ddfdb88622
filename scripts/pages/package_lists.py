"""Writes into each package's docstring the list of its modules, by their first lines. Invents no word.

    python -m scripts.pages.package_lists             write them
    python -m scripts.pages.package_lists --check     say which are stale

What stands before the list is written by hand: what the package is, and what it does not do. The order is
alphabetical; only evoflash itself is listed by floors, as pyproject.toml has its layers.
"""

import ast
import re
import sys
import textwrap
from pathlib import Path

from scripts import ROOT
from scripts.pages import markdown

_WIDTH = 110
_TOPS = ("evoflash", "scripts")
_LIST = re.compile(r"\n\s*\n(?:interfaces:\n\n)?(?= {0,4}\S+ {2,}\S)")
_FLOOR = re.compile(r"# (interfaces|application|engines|knowledge|ground)$")
_END = re.compile(r"(?<=[a-z0-9`)\"'])[.;:](?: |$)")  # of what a module is: what it does not do comes next


def docstring(path: Path) -> str:
    """Of a module; empty where it has none."""
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")), clean=False) or ""


def first_sentence(path: Path) -> str:
    """What a module is, without the full stop and without what it does not do."""
    paragraph = " ".join(docstring(path).split("\n\n")[0].split())
    return _END.split(paragraph, maxsplit=1)[0]


def entries(package: Path) -> dict[str, Path]:
    """Name as it is listed -> the file whose docstring says what it is."""
    found = {}
    for path in sorted(package.iterdir()):
        if path.suffix == ".py" and not path.name.startswith(("__", "test_")):
            found[path.stem] = path
        elif (path / "__init__.py").is_file():
            found[f"{path.name}/"] = path / "__init__.py"
    return found


def floors() -> list[tuple[str, list[str]]]:
    """The floors from top to bottom with the modules on each, as pyproject.toml has them."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found: list[tuple[str, list[str]]] = []
    for line in text[text.index("layers = [") :].splitlines()[1:]:
        if floor := _FLOOR.search(line):
            found.append((floor[1], []))
        elif line.strip() == "]":
            break
        else:
            found[-1][1].extend(line.strip(' ",').split(" | "))
    return found


def listing(package: Path, *, indent: str = "    ") -> str:
    """The list; under the floors' names for evoflash itself."""
    known = entries(package)
    if package != ROOT / "evoflash":
        return _rows(known, indent)
    parts = []
    for floor, names in floors():
        shown = {key: known[key] for name in names for key in (name, f"{name}/") if key in known}
        parts.append(f"{floor}:\n\n{_rows(shown, indent)}")
    return "\n\n".join(parts)


def _rows(known: dict[str, Path], indent: str) -> str:
    width = max(map(len, known)) + 2
    rows = []
    for name, path in known.items():
        head = f"{indent}{name:{width}}"
        below = " " * len(head)
        rows.append(textwrap.fill(first_sentence(path), _WIDTH, initial_indent=head, subsequent_indent=below))
    return "\n".join(rows)


def updated(package: Path) -> str:
    """The text of its __init__.py with the list made anew."""
    path = package / "__init__.py"
    text, old = path.read_text(encoding="utf-8"), docstring(path)
    intro = _LIST.split(old.rstrip() + "\n", maxsplit=1)[0].strip()
    indent = "    " if "\n" in intro else ""  # ruff takes the indentation of a list below a single line away
    return text.replace(old, f"{intro}\n\n{listing(package, indent=indent)}\n", 1)


def packages() -> list[Path]:
    """Folders with an __init__.py that has something to list."""
    found = (path.parent for top in _TOPS for path in sorted((ROOT / top).rglob("__init__.py")))
    return [package for package in found if entries(package)]


if __name__ == "__main__":
    fresh = ((package / "__init__.py", updated(package)) for package in packages())
    sys.exit(markdown.run(__doc__, "scripts.pages.package_lists", lambda: fresh))
