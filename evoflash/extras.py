"""What pip is asked for to install one of evoflash's extras. Installs nothing.

evoflash is on no package index, so that `pip install "evoflash[cuda13]"` finds nothing: the extra's own
packages are named, out of the metadata of the installed package or, in a checkout, its pyproject.toml.
"""

import importlib.metadata
import re
import tomllib
from functools import cache
from pathlib import Path

_PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
_EXTRA = re.compile(r"""(.*?)\s*;\s*extra\s*==\s*["']([\w-]+)["']""")


def install(extra: str) -> str:
    """The command that installs what the extra is made of, without marks around it."""
    return "pip install " + " ".join(f'"{each}"' for each in _requirements()[extra])


@cache
def _requirements() -> dict[str, list[str]]:
    if _PROJECT.is_file():
        project = tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]
        return {name: list(made) for name, made in project["optional-dependencies"].items()}
    found: dict[str, list[str]] = {}
    for line in importlib.metadata.requires("evoflash") or ():
        if match := _EXTRA.fullmatch(line):
            found.setdefault(match[2], []).append(match[1])
    return found
