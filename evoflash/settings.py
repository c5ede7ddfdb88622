"""What a person has set, by environment variables and config files. Runs no command, imports no extension.

One table holds all settings: each environment variable, its key in a config file, meaning and default. Config
files are evoflash.toml in the working folder and config.toml in the config home. Which value of a setting
holds, and where it comes from, is looked for in the environment, in config files, and last in the table.
"""

import contextlib
import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from os.path import expanduser  # leaves an unknown ~user as it is; Path raises
from pathlib import Path
from typing import Any, Literal

import platformdirs

from evoflash.errors import DeviceError, UsageError

DEFAULT_STRATEGY = "surrogate"  # of a search, from the command line and from Python
MOST = 2**31 - 1  # of whatever is counted: databases keep it in 32 bits
MOST_WORKERS = 512  # processes of one machine
MOST_AHEAD = 65_536  # proposals in flight
MOST_REPEATS = 1000  # runs of one search with other seeds
MOST_SEED = 2**32 - 1  # some samplers take no larger one

Kind = Literal["text", "path", "folder", "folders", "whole number", "number", "switch"]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. Without a `key` it is an environment variable alone, without a `variable` nothing is."""

    variable: str
    key: str | None
    kind: Kind
    default: str  # in words
    meaning: str
    commands: tuple[str, ...] | None = ()  # whose option of that name it sets; None: every command with one


SETTINGS = (
    Setting("EVOFLASH_DB", "db", "path", "~/.local/share/evoflash/evoflash.db",
            "the database: a path or an SQLAlchemy URL"),
    Setting("EVOFLASH_CACHE_DIR", "cache_dir", "folder", "~/.cache/evoflash",
            "the folder of compiled kernels and of the emulator"),
    Setting("EVOFLASH_GPU", "gpu", "text", "the GPU present", "the value of --gpu", None),
    Setting("EVOFLASH_PROBLEM", "problem", "text", "mission, or the newest in the database",
            "the value of --problem", None),
    Setting("EVOFLASH_STRATEGY", "strategy", "text", "as --help of a search says",
            "the value of --strategy of a search",
            ("search",)),
    Setting("EVOFLASH_BUDGET", "budget", "whole number", "200", "the value of --budget of a search",
            ("search",)),
    Setting("EVOFLASH_PRICE_PER_HOUR", "price-per-hour", "number", "none",
            "what an hour of the GPU costs: the value of --price-per-hour", None),
    Setting("EVOFLASH_EXTENSIONS", "extensions", "folders", "none",
            "folders with families, operators, GPUs and strategies of your own, with colons between"),
    Setting("EVOFLASH_TEMPLATES", "templates", "folder", "none",
            "a folder of kernel families that is looked at before the shipped one and may replace its files"),
    Setting("EVOFLASH_OPERATIONS", "operations", "text", "none",
            "operations besides those that ship: name=module, with commas between"),
    Setting("EVOFLASH_QUIET", "quiet", "switch", "off", "no progress, no notes, one line of a search, as -q"),
    Setting("EVOFLASH_LOG", "log", "text", "warning", "the level of the log: debug, info, warning or error"),
    Setting("EVOFLASH_DEBUG", "debug", "switch", "off", "show the traceback of an unexpected error"),
    Setting("EVOFLASH_GPU_TURNS", None, "path", "none",
            "the beginning of a file's name: commands that name the same one, and the same GPU by "
            "CUDA_VISIBLE_DEVICES, launch nothing while one of them times a kernel"),
    Setting("EVOFLASH_CONFIG", None, "path", "none",
            "a config file that is read in place of evoflash.toml and the one in the config home"),
    Setting("EVOFLASH_EXTRA", None, "text", "by the driver",
            "cuda12 or cuda13: the wheels that scripts/evoflash installs into a checkout"),
)  # fmt: skip

INTERNAL = {  # set by evoflash itself for its own processes; no person sets them
    "EVOFLASH_SHARED_CASES": "the folder in which the processes of a search share inputs and right answers",
    "EVOFLASH_ROOT": "the checkout, within scripts/",
    "EVOFLASH_VENV": "the checkout's virtual environment, within scripts/",
    "EVOFLASH_LOCK": "the file that two set-ups at once wait for, within scripts/",
    "EVOFLASH_UNFINISHED": "the mark of a set-up that did not end, within scripts/",
}


def by_key() -> dict[str, Setting]:
    """The settings that a config file may have, by key."""
    return {setting.key: setting for setting in SETTINGS if setting.key}


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
    found = list[Path]()
    with contextlib.suppress(OSError):  # the folder may be gone
        found.append(Path.cwd() / NAME)
    with contextlib.suppress(DeviceError):  # a user without a home has set nothing there
        found.append(home_folder("config") / "config.toml")
    return tuple(found)


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
    return ConfigFile(path, {name: _config_value(path, name, value) for name, value in plain.items()}, tables)


def _config_value(path: Path, name: str, value: object) -> Any:
    setting = by_key().get(name)
    if setting is None:
        raise unknown(path, "setting", name, by_key())
    kind, words = _WORDS[setting.kind]
    if setting.kind == "folders" and isinstance(value, str):
        value = [value]
    good = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if not good or (isinstance(value, list) and not all(isinstance(each, str) for each in value)):
        raise UsageError(f"{path}: {name} = {value!r}: write {words}.")
    return _resolve_paths(path, setting, value)


def _resolve_paths(path: Path, setting: Setting, value: Any) -> Any:
    """Relative paths are meant from the config file's folder."""
    if setting.kind == "folders":
        return tuple(_from(path, each) for each in value)
    is_path = setting.kind in ("folder", "path") and "://" not in value
    return _from(path, value) if is_path else value


def _from(path: Path, value: str) -> str:
    return str(path.parent / expanduser(value))


_OFF, _ON = ("0", "false", "no", "off"), ("1", "true", "yes", "on")


@dataclass(frozen=True, slots=True)
class SettingValue:
    """The value of a setting, None for the built-in one, and where it comes from in words."""

    value: Any
    source: str


def lookup(key: str) -> SettingValue:
    """The value that holds. UsageError names the variable or the file of one that makes no sense."""
    setting = by_key()[key]
    if text := os.environ.get(setting.variable):
        return SettingValue(_parse(setting, text), setting.variable)
    for file in config_files():
        if key in file.values:
            return SettingValue(file.values[key], str(file.path))
    return SettingValue(None, "built in")


def value(key: str) -> Any:
    """The value that holds; None for the built-in one."""
    return lookup(key).value


def is_on(key: str) -> bool:
    return bool(value(key))


def _parse(setting: Setting, text: str) -> Any:
    if setting.kind in ("whole number", "number"):
        try:
            return int(text) if setting.kind == "whole number" else float(text)
        except ValueError:
            raise UsageError(f"{setting.variable}={text}: give a {setting.kind}.") from None
    if setting.kind == "switch":
        if text.lower() not in (*_ON, *_OFF):
            raise UsageError(f"{setting.variable}={text}: give 1 or 0.")
        return text.lower() in _ON
    if setting.kind == "folders":
        return tuple(part for part in text.split(os.pathsep) if part)
    return text


_REMEDIES = {
    "cache": "HOME or EVOFLASH_CACHE_DIR",
    "data": "HOME or EVOFLASH_DB",
    "config": "HOME",
    "state": "HOME",
}


def home_folder(kind: Literal["cache", "config", "data", "state"]) -> Path:
    """Where evoflash keeps things of that kind.

    DeviceError where HOME is not set and the user is not known, as in a container that runs under a number.
    """
    places = platformdirs.PlatformDirs("evoflash")
    try:
        found = Path(getattr(places, f"user_{kind}_dir"))
    except RuntimeError:  # newer versions of platformdirs; older ones leave the ~
        found = Path("~")
    if not found.is_absolute():
        raise DeviceError(
            f"no home folder is known: HOME is not set and user {os.getuid()} has none: set "
            f"{_REMEDIES[kind]}."
        )
    return found
