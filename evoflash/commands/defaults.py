"""The defaults of options that config files and the environment set, checked against the commands. Runs none.

A table of a config file is named after a command, its keys after the command's options without the dashes:

    [leaderboard]
    top = 5
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import typer
from typer.core import TyperOption

from evoflash.errors import UsageError
from evoflash.settings.config_file import ConfigFile, config_files, unknown
from evoflash.settings.values import held
from evoflash.settings.variables import by_key

Defaults = dict[str, Any]  # by command, then by parameter, or by command of a group


def defaults_of(commands: Mapping[str, Any], ctx: typer.Context) -> Defaults:
    """Values by command and parameter, as a context's `default_map` takes them. UsageError for what is wrong.

    The environment comes before the config file of the working folder, that before the one in the config
    home; in a file a command's table comes before a setting for all commands.
    """
    found: Defaults = {}
    for file in reversed(config_files()):
        _put_settings(found, commands, file.values)
        _put_tables(found, commands, _Tables(file, file.tables, ctx))
    _put_settings(found, commands, _of_environment())
    return found


def _of_environment() -> dict[str, Any]:
    found = {key: (held(key), setting.variable) for key, setting in by_key().items()}
    return {key: it.value for key, (it, variable) in found.items() if it.source == variable}


def _put_settings(found: Defaults, commands: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """The settings that are an option of commands, into all of these and those of groups."""
    for name, command in commands.items():
        mine, options = found.setdefault(name, {}), _options(command)
        for key, setting in by_key().items():
            is_meant = setting.commands is None or name in setting.commands
            if is_meant and key in values and f"--{key}" in options:
                mine[options[f"--{key}"].name] = values[key]
        _put_settings(mine, getattr(command, "commands", {}), values)


@dataclass(frozen=True, slots=True)
class _Tables:
    """Tables of a config file, and where in it they stand: `runs.` for those of a group's commands."""

    file: ConfigFile
    tables: Mapping[str, Any]
    ctx: typer.Context
    within: str = ""


def _put_tables(found: Defaults, commands: Mapping[str, Any], given: _Tables) -> None:
    for name, table in given.tables.items():
        if name not in commands:
            raise unknown(given.file.path, "command", f"{given.within}{name}", commands)
        nested, mine = getattr(commands[name], "commands", {}), found.setdefault(name, {})
        options = {flag.lstrip("-"): param for flag, param in _options(commands[name]).items()}
        for key, value in table.items():
            if key in nested and isinstance(value, dict):
                within = replace(given, tables={key: value}, within=f"{given.within}{name}.")
                _put_tables(mine, nested, within)
            elif key not in options:
                what = f"option of `evoflash {given.within.replace('.', ' ')}{name}`"
                raise unknown(given.file.path, what, key, (*options, *nested))
            else:
                place = f"[{given.within}{name}] {key}"
                mine[options[key].name] = _converted(given.file, place, options[key], value, given.ctx)


def _options(command: Any) -> dict[str, TyperOption]:
    """By their long flags; `--help` and the like end a command and so have no default."""
    params = [param for param in command.params if isinstance(param, TyperOption) and not param.is_eager]
    return {flag: param for param in params for flag in param.opts if flag.startswith("--")}


def _converted(
    file: ConfigFile, place: str, parameter: TyperOption, value: object, ctx: typer.Context
) -> object:
    """The value as the option takes it. UsageError where it is none of its values."""
    place = f"{file.path}: {place} = {value!r}"
    if parameter.is_flag:
        if not isinstance(value, bool):
            raise UsageError(f"{place}: write true or false.")
        return value
    is_many = parameter.multiple or parameter.nargs != 1
    if isinstance(value, list) != is_many or isinstance(value, bool | dict):
        raise UsageError(f"{place}: write {'a list' if is_many else 'a number or a text in quotes'}.")
    typed = [str(each) for each in value] if isinstance(value, list) else str(value)
    try:
        parameter.process_value(ctx, typed)  # a flag's callback would act; no other option has one
    except typer.BadParameter as error:
        raise UsageError(f"{place}: {error.message.rstrip('.')}: correct it.") from None
    return typed
