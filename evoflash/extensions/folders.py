"""The user's extension folders and the files in them; loads none of these files.

A folder is named by the setting `extensions` (EVOFLASH_EXTENSIONS or a config file), or by an installed
package through an entry point of the group `evoflash.extensions`, whose value is the package that is the
folder. Its subfolders are called as in KINDS.
"""

import importlib.metadata
import importlib.util
import re
from collections.abc import Mapping
from functools import cache
from os.path import expanduser  # leaves an unknown ~user as it is; Path raises
from pathlib import Path

from evoflash.errors import UsageError
from evoflash.settings.values import held

GROUP = "evoflash.extensions"
KINDS = {"templates": ".cu.j2", "mutations": ".py", "gpus": ".toml", "strategies": ".py"}
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
NAME_IN_WORDS = "a lower-case letter, then lower-case letters, digits and underscores, 40 at most"


def extension_folders() -> tuple[Path, ...]:
    """Each once, those of the setting first. UsageError for one that is not there."""
    setting = held("extensions")
    named = [(Path(expanduser(each)), setting.source) for each in setting.value or ()]
    found: dict[Path, None] = {}
    for folder, source in (*named, *_of_packages()):
        if not folder.is_dir():
            raise UsageError(f"{source} names the extension folder {folder}, which is not there: make it.")
        found[folder.resolve()] = None
    return tuple(found)


def described(folder: Path) -> str:
    """The folder and how many files of each kind it holds, in words."""
    counts = {kind: len([*(folder / kind).glob(f"[!_.]*{ending}")]) for kind, ending in KINDS.items()}
    return f"{folder}: " + ", ".join(f"{count} {kind}" for kind, count in counts.items())


def extended(kind: str, known: Mapping[str, Path]) -> dict[str, Path]:
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
