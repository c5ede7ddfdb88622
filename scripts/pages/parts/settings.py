"""The table of settings in docs/commands.md, made of evoflash/settings.py. Writes no file."""

from evoflash.settings import SETTINGS, Setting
from scripts.pages import markdown


def table() -> str:
    """A row for each setting: its variable, its key in evoflash.toml, its default and its meaning."""
    heads = ("variable", "key in evoflash.toml", "default", "what it sets")
    return "\n".join(markdown.table(heads, map(_cells, SETTINGS))) + "\n"


def _cells(setting: Setting) -> list[str]:
    key = f"`{setting.key}`" if setting.key else ""
    return [f"`{setting.variable}`", key, setting.default.replace("|", "\\|"), setting.meaning]
