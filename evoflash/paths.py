"""Where the shipped folders (templates/, mutations/, db/) and the user's folders are. Creates none.

In a wheel the shipped folders are under evoflash/_share, in a checkout beside the package.
"""

import os
from pathlib import Path

import platformdirs

from evoflash.errors import EvoflashError, UsageError
from evoflash.settings import lookup, value

_PACKAGE = Path(__file__).resolve().parent
_INSTALLED = _PACKAGE / "_share"
_SHARE = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent

TEMPLATES = _SHARE / "templates"
MUTATIONS = _SHARE / "mutations"
DB = _SHARE / "db"
GPUS = _PACKAGE / "specs"
STRATEGIES = _PACKAGE / "strategies"
CHAMPIONS = _PACKAGE / "champions"
DEVICE = _PACKAGE / "device"
EMU = _PACKAGE / "emulator" / "emu"


def shipped_folder(folder: Path) -> Path:
    """One of the shipped folders; EvoflashError where this copy of evoflash lacks it, or what is in it."""
    if not any(folder.glob("[!_.]*")):
        raise EvoflashError(
            f"this copy of evoflash is not whole: it lacks {folder}: copy that folder too, or install anew."
        )
    return folder


def cache_dir() -> Path:
    """Compiled kernels and the emulator's runtime; the setting `cache_dir` overrides."""
    chosen = value("cache_dir")
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("evoflash"))


def keep_cupy_at_home() -> None:
    """Give CuPy a folder in our cache, unless CUPY_CACHE_DIR names one: it makes its own when it is imported,
    and fails where the home cannot be written, though nothing of ours is ever put there.
    """
    os.environ.setdefault("CUPY_CACHE_DIR", str(cache_dir() / "cupy"))


def cache_advice(error: OSError) -> str:
    """What to do where the cache cannot be written."""
    return (
        f"the kernel cache {cache_dir()} cannot be written ({error.strerror}): free space there or set "
        "EVOFLASH_CACHE_DIR to a writable folder."
    )


def template_folders() -> tuple[Path, ...]:
    """Where kernel families are looked for: that of the setting `templates`, if any, then the shipped one.

    UsageError where the setting names a folder that is not there, EvoflashError where the shipped one is not.
    """
    own = lookup("templates")
    if not own.value:
        return (shipped_folder(TEMPLATES),)
    if not Path(own.value).is_dir():
        raise UsageError(
            f"{own.source} names the folder {own.value}, which is not there: make or correct it."
        )
    return (Path(own.value), shipped_folder(TEMPLATES))


def default_database() -> str:
    """The database's path or SQLAlchemy URL; the setting `db` overrides."""
    return value("db") or _usual_database()


def _usual_database() -> str:
    return str(Path(platformdirs.user_data_dir("evoflash")) / "evoflash.db")


def usual_places() -> dict[str, str]:
    """For people, where the database and the cache are while no setting says another place, by setting."""
    usual = {"db": _usual_database(), "cache_dir": platformdirs.user_cache_dir("evoflash")}
    home = os.path.join(os.path.expanduser("~"), "")
    return {
        name: path.replace(home, "~/", 1) if path.startswith(home) else path for name, path in usual.items()
    }


def state_dir() -> Path:
    """Where the logs of unexpected errors are written."""
    return Path(platformdirs.user_state_dir("evoflash"))
