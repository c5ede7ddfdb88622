"""Config files: evoflash.toml in the working folder and config.toml in the config home, read and checked.

Keys at the top are settings (variables.py); a table is named after a command and sets its options, which
commands/defaults.py checks. Everything malformed is a UsageError that names the file.
"""

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from os.path import expanduser  # leaves an unknown ~user as it is; Path raises
from pathlib import Path
from typing import Any

import platformdirs

from evoflash.errors import UsageError
from evoflash.settings.variables import Setting, by_key

NAME = "evoflash.toml"
_WORDS = {
    "text": (str, "a text in quotes"),
    "path": (str, "a path in quotes"),
    "folder": (str, "a folder in quotes"),
    "folders": (list, "a list of folders in quotes"),
    "whole number": (int, "a whole number"),
    "number": (int | float, "a number"),
    "switch": (bool, "true or false"),
}


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """One config file: its settings, and its commands' tables as they are written."""

    path: Path
    values: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def places() -> tuple[Path, ...]:
    """Where config files are looked for, the first one first."""
    if named := os.environ.get("EVOFLASH_CONFIG"):
        return (Path(expanduser(named)),)
    home = Path(platformdirs.user_config_dir("evoflash")) / "config.toml"
    return (Path.cwd() / NAME, home)


def config_files() -> tuple[ConfigFile, ...]:
    """Those that there are. UsageError for one that is malformed, or named and missing."""
    found = tuple(place for place in places() if place.exists())
    if os.environ.get("EVOFLASH_CONFIG") and not found:
        raise UsageError(f"EVOFLASH_CONFIG names {places()[0]}, which is not there: correct or unset it.")
    return tuple(_read(place, place.stat().st_mtime_ns) for place in found)


def unknown(file: Path, what: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for a name that a config file may not have, with the nearest that it may."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]}?" if near else ""
    return UsageError(f"{file}: no {what} is called '{name}'.{hint} Known: {', '.join(names)}.")


@lru_cache(maxsize=16)
def _read(path: Path, _changed: int) -> ConfigFile:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not TOML: {error}; correct that line.") from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not TOML: {error}; write it as UTF-8 text.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}; mend it or move it away.") from None
    tables = {name: value for name, value in table.items() if isinstance(value, dict)}
    plain = {name: value for name, value in table.items() if name not in tables}
    return ConfigFile(path, {name: _checked(path, name, value) for name, value in plain.items()}, tables)


def _checked(path: Path, name: str, value: object) -> Any:
    setting = by_key().get(name)
    if setting is None:
        raise unknown(path, "setting", name, by_key())
    kind, words = _WORDS[setting.kind]
    if setting.kind == "folders" and isinstance(value, str):
        value = [value]
    good = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if not good or (isinstance(value, list) and not all(isinstance(each, str) for each in value)):
        raise UsageError(f"{path}: {name} = {value!r}: write {words}.")
    return _placed(path, setting, value)


def _placed(path: Path, setting: Setting, value: Any) -> Any:
    """Relative paths are meant from the config file's folder."""
    if setting.kind == "folders":
        return tuple(_from(path, each) for each in value)
    is_path = setting.kind in ("folder", "path") and "://" not in value
    return _from(path, value) if is_path else value


def _from(path: Path, value: str) -> str:
    return str(path.parent / expanduser(value))
