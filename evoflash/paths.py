"""Where the shipped folders (templates/, mutations/, db/) and the user's folders are; creates none.

In a wheel the shipped folders are under evoflash/_share, in a checkout beside the package.
"""

import os
from pathlib import Path

import platformdirs

_PACKAGE = Path(__file__).resolve().parent
_INSTALLED = _PACKAGE / "_share"
_SHARE = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent

TEMPLATES = _SHARE / "templates"
MUTATIONS = _SHARE / "mutations"
DB = _SHARE / "db"
GPUS = _PACKAGE / "gpus"
CHAMPIONS = _PACKAGE / "champions"
DEVICE = _PACKAGE / "device"
EMU = _PACKAGE / "emulator" / "emu"


def cache_dir() -> Path:
    """Compiled kernels and the emulator's runtime; EVOFLASH_CACHE_DIR overrides."""
    override = os.environ.get("EVOFLASH_CACHE_DIR")
    return Path(override) if override else Path(platformdirs.user_cache_dir("evoflash"))


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
    """Where kernel families are looked for: EVOFLASH_TEMPLATES (your own, if set), then the shipped ones."""
    own = os.environ.get("EVOFLASH_TEMPLATES")
    return (Path(own), TEMPLATES) if own else (TEMPLATES,)


def default_database() -> str:
    """The database's path or SQLAlchemy URL; EVOFLASH_DB overrides."""
    override = os.environ.get("EVOFLASH_DB")
    return override or str(Path(platformdirs.user_data_dir("evoflash")) / "evoflash.db")
