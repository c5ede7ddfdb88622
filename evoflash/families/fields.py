"""Single fields of a header, each of a stated type; a TemplateError names file and key. Knows no key."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evoflash.errors import TemplateError


def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise TemplateError(f"{path} is no text in UTF-8: {error.reason} at byte {error.start}.") from None


def names_of(path: Path, place: str, names: object) -> tuple[str, ...]:
    if not isinstance(names, list | tuple) or not all(isinstance(each, str) for each in names):
        raise TemplateError(f"{path.name}: {place} must be a list of params in quotes, it is {names!r}.")
    return tuple(names)


def get(path: Path, table: Mapping[str, Any], key: str, kind: type) -> Any:
    value = table.get(key)
    if not isinstance(value, kind):
        raise TemplateError(f"{path.name}: the header needs {key} ({kind.__name__}), it has {value!r}.")
    return value


def switch(path: Path, table: Mapping[str, Any], key: str) -> bool:
    value = table.get(key, False)
    if not isinstance(value, bool):
        raise TemplateError(f"{path.name}: {key} must be true or false, it is {value!r}.")
    return value


def table_of(path: Path, table: Mapping[str, Any], key: str, *, optional: bool = False) -> dict[str, Any]:
    if optional and key not in table:
        return {}
    section: dict[str, Any] = get(path, table, key, dict)
    return section
