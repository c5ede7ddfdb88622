"""`evoflash config` shows which settings hold, and where each comes from. It changes none."""

from collections.abc import Mapping
from typing import Any

import typer

from evoflash.cli.shared_options import Json
from evoflash.errors import without_passwords
from evoflash.views.terminal import json_text


def config(as_json: Json = False) -> None:
    """The settings that hold, and where each comes from.

    The settings that hold, and where each comes from: option > environment > folder > home > built in.

    Example: evoflash config
    """
    from evoflash.extensions import describe_folder, extension_folders
    from evoflash.settings import config_files, places

    files = [str(file.path) for file in config_files()]
    looked = [str(place) for place in places()]
    rows = [*_settings(), *_options()]
    if as_json:
        typer.echo(json_text({"settings": rows, "files": files, "looked_for": looked}))
        return
    width = max(len(row["name"]) for row in rows)
    values = [_value_text(row) for row in rows]
    wide = min(44, max(map(len, values)))
    for row, value in zip(rows, values, strict=True):
        typer.echo(f"{row['name']:{width}}  {value:{wide}}  {row['source']}")
    typer.echo()
    typer.echo("config files: " + ", ".join(f"{p} ({'read' if p in files else 'not there'})" for p in looked))
    for folder in extension_folders():
        typer.echo(f"extensions:   {describe_folder(folder)}")


def _settings() -> list[dict[str, Any]]:
    """Every setting of the table; of one that is a variable alone its value in the environment."""
    import os

    from evoflash.paths import usual_places
    from evoflash.settings import SETTINGS, lookup

    rows, usual = [], usual_places()
    for setting in SETTINGS:
        if setting.key:
            here = lookup(setting.key)
            value, source = here.value, here.source
            value = without_passwords(value) if isinstance(value, str) else value
        else:
            value = os.environ.get(setting.variable) or None
            source = "built in" if value is None else setting.variable
        rows.append(
            {
                "name": setting.key or setting.variable,
                "variable": setting.variable,
                "value": value,
                "default": usual.get(setting.key or "", setting.default),
                "source": source,
                "meaning": setting.meaning,
            }
        )
    return rows


def _options() -> list[dict[str, Any]]:
    """What the tables of config files say of commands' options; the first file counts."""
    from evoflash.settings import config_files

    rows: dict[str, dict[str, Any]] = {}
    for file in config_files():
        for command, table in file.tables.items():
            for key, value in table.items():
                row = {"name": f"{command}.{key}", "value": value, "source": str(file.path)}
                rows.setdefault(str(row["name"]), row)
    return list(rows.values())


def _value_text(row: Mapping[str, Any]) -> str:
    value = row["value"]
    if value is None:
        return f"({row['default']})"
    if isinstance(value, bool):
        return "on" if value else "off"
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
