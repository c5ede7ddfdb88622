"""Which value of a setting holds, and where it comes from: environment, config files, else the built-in one.

An option of the command line stands above all of these; commands/defaults.py sees to that.
"""

import os
from dataclasses import dataclass
from typing import Any

from evoflash.errors import UsageError
from evoflash.settings.config_file import config_files
from evoflash.settings.variables import Setting, by_key

_OFF, _ON = ("0", "false", "no", "off"), ("1", "true", "yes", "on")


@dataclass(frozen=True, slots=True)
class Held:
    """The value of a setting, None for the built-in one, and where it comes from in words."""

    value: Any
    source: str


def held(key: str) -> Held:
    """The value that holds. UsageError names the variable or the file of one that makes no sense."""
    setting = by_key()[key]
    if text := os.environ.get(setting.variable):
        return Held(_parsed(setting, text), setting.variable)
    for file in config_files():
        if key in file.values:
            return Held(file.values[key], str(file.path))
    return Held(None, "built in")


def value(key: str) -> Any:
    """The value that holds; None for the built-in one."""
    return held(key).value


def is_on(key: str) -> bool:
    """A switch."""
    return bool(value(key))


def _parsed(setting: Setting, text: str) -> Any:
    if setting.kind == "whole number":
        try:
            return int(text)
        except ValueError:
            raise UsageError(f"{setting.variable}={text}: give a whole number.") from None
    if setting.kind == "number":
        try:
            return float(text)
        except ValueError:
            raise UsageError(f"{setting.variable}={text}: give a number.") from None
    if setting.kind == "switch":
        if text.lower() not in (*_ON, *_OFF):
            raise UsageError(f"{setting.variable}={text}: give 1 or 0.")
        return text.lower() in _ON
    if setting.kind == "folders":
        return tuple(part for part in text.split(os.pathsep) if part)
    return text
