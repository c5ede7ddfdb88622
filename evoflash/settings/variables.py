"""The one table of settings: each environment variable, its key in a config file, meaning and default.

`evoflash config` and the table in docs/commands.md are made of it. Reads nothing; values.py does.
"""

from dataclasses import dataclass
from typing import Literal

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
            "operations besides attention: name=module, with commas between"),
    Setting("EVOFLASH_QUIET", "quiet", "switch", "off", "no progress, no notes, one line of a search, as -q"),
    Setting("EVOFLASH_LOG", "log", "text", "warning", "the level of the log: debug, info, warning or error"),
    Setting("EVOFLASH_DEBUG", "debug", "switch", "off", "show the traceback of an unexpected error"),
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
