"""Finds and loads families, operators, GPUs and strategies of one's own in extension folders.

A Python file of a user is loaded, and what is wrong with it is said in one line. Their digests are what runs
and records say they were made with. Calls none.
"""

import hashlib
import importlib.metadata
import importlib.util
import re
import sys
import traceback
from collections.abc import Mapping
from functools import cache
from os.path import expanduser  # leaves an unknown ~user as it is; Path raises
from pathlib import Path
from types import ModuleType

from evoflash.errors import UsageError
from evoflash.settings import lookup

GROUP = "evoflash.extensions"
KINDS = {"templates": ".cu.j2", "mutations": ".py", "gpus": ".toml", "strategies": ".py"}
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
NAME_IN_WORDS = "a lower-case letter, then lower-case letters, digits and underscores, 40 at most"


def extension_folders() -> tuple[Path, ...]:
    """Each once, those of the setting first. UsageError for one that is not there."""
    setting = lookup("extensions")
    named = [(Path(expanduser(each)), setting.source) for each in setting.value or ()]
    found: dict[Path, None] = {}
    for folder, source in (*named, *_of_packages()):
        if not folder.is_dir():
            raise UsageError(f"{source} names the extension folder {folder}, which is not there: make it.")
        found[folder.resolve()] = None
    return tuple(found)


def describe_folder(folder: Path) -> str:
    """The folder and how many files of each kind it holds, in words."""
    counts = {kind: len([*(folder / kind).glob(f"[!_.]*{ending}")]) for kind, ending in KINDS.items()}
    return f"{folder}: " + ", ".join(f"{count} {kind}" for kind, count in counts.items())


def made_with(operators: Path) -> dict[str, str]:
    """What decides a search beside the version of evoflash: `operators`, a digest of the folder of mutation
    operators, and, where there are some, `extensions`, each file of one's own with its digest.
    """
    shipped = hashlib.sha256()
    for path in sorted(operators.glob("*.py")):
        shipped.update(path.name.encode() + b"\0" + path.read_bytes())
    own = [
        f"{kind}/{path.name} {_digest(path)}"
        for folder in extension_folders()
        for kind, ending in KINDS.items()
        for path in sorted((folder / kind).glob(f"[!_.]*{ending}"))
    ]
    known = {"operators": shipped.hexdigest()[:_DIGITS]}
    return known | ({"extensions": ", ".join(own)} if own else {})


_DIGITS = 16


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:_DIGITS]


def with_extensions(kind: str, known: Mapping[str, Path]) -> dict[str, Path]:
    """The known files of a kind by name, and those of the extension folders.

    UsageError where a name is no name, or there is one already: the message has both files.
    """
    files = dict(known)
    for folder in extension_folders():
        for path in sorted((folder / kind).glob(f"[!_.]*{KINDS[kind]}")):
            name = path.name.removesuffix(KINDS[kind])
            if not NAME.fullmatch(name):
                raise UsageError(f"{path}: '{name}' is no name here; rename it: {NAME_IN_WORDS}.")
            if name in files:
                raise UsageError(f"'{name}' is there twice: {files[name]} and {path}; rename one of them.")
            files[name] = path
    return files


@cache
def _of_packages() -> tuple[tuple[Path, str], ...]:
    """The folders that installed packages name, with the words for where that is written."""
    found = []
    for point in importlib.metadata.entry_points(group=GROUP):
        source = f"the entry point {point.name} = {point.value} of the group {GROUP}"
        try:
            spec = importlib.util.find_spec(point.value)
        except (ImportError, ValueError):
            spec = None
        places = list(spec.submodule_search_locations or ()) if spec else []
        if not places:
            raise UsageError(f"{source} names no package: correct it or uninstall its distribution.")
        found.append((Path(places[0]), source))
    return tuple(found)


def load(path: Path, name: str) -> ModuleType:
    """The file as the module of that name, loaded once. UsageError with file and line if it fails."""
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file: name it NAME.py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # as an import does: dataclasses look there for the module being loaded
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise UsageError(f"{mistake(error, path)}; mend the file or remove it.") from None
    return module


def mistake(error: BaseException, path: Path | str) -> str:
    """`file:line: what was raised`, the line being the last one of that file on the way to the error."""
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)
    ]
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == str(path) else None
    line = line or (lines[-1] if lines else None)
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    place = f"{path}:{line}" if line else str(path)
    return f"{place}: {type(error).__name__}: {' '.join(said.split())[:300]}".rstrip(": ")
