"""A person's own folders on this system, or one line where the system knows of no home. Creates none."""

import os
from pathlib import Path
from typing import Literal

import platformdirs

from evoflash.errors import DeviceError

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
