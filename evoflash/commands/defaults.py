"""The defaults of options that config files and the environment set, checked against the commands. Runs none.

A table of a config file is named after a command, its keys after the command's options without the dashes:

    [leaderboard]
    top = 5
"""

from collections.abc import Iterator, Mapping
from typing import Any

import typer
from typer.core import TyperOption

from evoflash.errors import UsageError
from evoflash.settings.config_file import ConfigFile, config_files, unknown
from evoflash.settings.values import held
from evoflash.settings.variables import SETTINGS

Defaults = dict[str, dict[str, Any]]


def defaults_of(commands: Mapping[str, Any], ctx: typer.Context) -> Defaults:
    """Values by command and parameter, as a context's `default_map` takes them. UsageError for what is wrong.

    The environment comes before the config file of the working folder, that before the one in the config
    home; in a file a command's table comes before a setting for all commands.
    """
    found: Defaults = {name: {} for name in commands}
    for file in reversed(config_files()):
        _put_settings(found, commands, file.values)
        for name, parameter, value in _of_tables(file, commands, ctx):
            found[name][str(parameter.name)] = value
    _put_settings(found, commands, _of_environment())
    return found


def _of_environment() -> dict[str, Any]:
    held_of = {setting.key: (held(setting.key), setting.variable) for setting in SETTINGS if setting.key}
    return {key: it.value for key, (it, variable) in held_of.items() if it.source == variable}


def _put_settings(found: Defaults, commands: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """The settings that are an option of commands, into all of these."""
    for setting in SETTINGS:
        if not setting.key or setting.key not in values or setting.commands == ():
            continue
        for name, command in commands.items():
            is_meant = setting.commands is None or name in setting.commands
            if is_meant and f"--{setting.key}" in _options(command):
                found[name][setting.key] = values[setting.key]


def _of_tables(
    file: ConfigFile, commands: Mapping[str, Any], ctx: typer.Context
) -> Iterator[tuple[str, TyperOption, Any]]:
    for name, table in file.tables.items():
        if name not in commands:
            raise unknown(file.path, "command", name, commands)
        options = {flag.lstrip("-"): param for flag, param in _options(commands[name]).items()}
        for key, value in table.items():
            if key not in options:
                raise unknown(file.path, f"option of `evoflash {name}`", key, options)
            yield name, options[key], _converted(file, f"[{name}] {key}", options[key], value, ctx)


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
