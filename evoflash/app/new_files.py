"""Writes a family, operator, GPU or strategy to begin one's own from, as working files. Overwrites nothing.

The folder is found as the settings say.
"""

from collections.abc import Iterable
from os.path import expanduser
from pathlib import Path

from evoflash.errors import UsageError
from evoflash.extensions import KINDS, NAME, NAME_IN_WORDS, extension_folders
from evoflash.paths import GPUS
from evoflash.settings import value
from evoflash.written_files import make_folder, write_text

# leaves an unknown ~user as it is; Path raises


KIND = {"family": "templates", "mutation": "mutations", "gpu": "gpus", "strategy": "strategies"}
DEFAULT = "evoflash-extensions"
_TEXTS = Path(__file__).parent / "new_file_texts"
_PLACEHOLDER = "my_name"
_GPU = "l4"  # whose figures a new GPU begins with


def folder_for(into: Path | None) -> Path:
    """The extension folder to write to: the one asked for, else the first that is set, else DEFAULT here."""
    if into is not None:
        return Path(expanduser(into)).absolute()
    named = value("extensions") or ()  # it need not be there yet
    return Path(expanduser(named[0])).absolute() if named else Path.cwd() / DEFAULT


def is_found(folder: Path) -> bool:
    """Whether evoflash looks into the folder as things are set now."""
    return folder.resolve() in extension_folders()


def write(what: str, name: str, folder: Path) -> tuple[Path, Path]:
    """The new file and its test. UsageError for a bad name, one that is taken, or a file that is there."""
    if not NAME.fullmatch(name):
        raise UsageError(f"'{name}' is no name for a {what}: write {NAME_IN_WORDS}.")
    kind = KIND[what]
    path, test = folder / kind / f"{name}{KINDS[kind]}", folder / "tests" / f"test_{what}_{name}.py"
    if there := [each for each in (path, test) if each.exists()]:
        raise UsageError(f"{there[0]} is there already: choose another name, or move it away.")
    make_folder(folder)
    if name in _known_names(what):
        raise UsageError(f"a {what} called '{name}' is there already: choose another name.")
    for each, text in ((path, _text(what)), (test, _read(f"test_{what}.py.txt"))):
        make_folder(each.parent)
        write_text(each, text.replace(_PLACEHOLDER, name))
    return path, test


def _known_names(what: str) -> Iterable[str]:
    if what == "family":
        from evoflash.kernels.family import known_families

        return known_families()
    if what == "gpu":
        from evoflash.specs import known_gpus

        return known_gpus()
    if what == "strategy":
        from evoflash.strategies import known_strategies

        return known_strategies()
    from evoflash.strategies.operators import operator_files

    return operator_files()


def _text(what: str) -> str:
    if what != "gpu":
        return _read(f"{what}{KINDS[KIND[what]]}.txt")
    figures = (GPUS / f"{_GPU}.toml").read_text(encoding="utf-8").splitlines()
    own = ['device_names = ["my_name"]' if line.startswith("device_names ") else line for line in figures]
    first_figure = next(at for at, line in enumerate(own) if line and not line.startswith("#"))
    sources = own.index("[sources]")
    return "\n".join(
        [_read("gpu.toml.txt"), *own[first_figure:sources], _read("sources.toml.txt"), *own[sources:], ""]
    )


def _read(name: str) -> str:
    return (_TEXTS / name).read_text(encoding="utf-8")
