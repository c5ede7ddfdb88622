"""Where the shipped folders (templates/, mutations/, db/) and the user's are, and why the cache fails.

Creates those of the cache alone. In a wheel the shipped folders are under evoflash/_share, in a checkout
beside the package.
"""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from evoflash.errors import CacheError, DeviceError, EvoflashError, UsageError
from evoflash.settings import home_folder, lookup, value

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
    return Path(chosen) if chosen else home_folder("cache")


def keep_cupy_at_home() -> None:
    """Give CuPy a folder in our cache, unless CUPY_CACHE_DIR names one: it makes its own when it is imported,
    and fails where the home cannot be written, though nothing of ours is ever put there. Where our cache
    cannot be written either, it is given one that is there.
    """
    if "CUPY_CACHE_DIR" in os.environ:
        return
    try:
        folder = cache_dir() / "cupy"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, DeviceError):  # the latter: there is no home
        folder = Path(_temporary_folder() or os.sep)
    os.environ["CUPY_CACHE_DIR"] = str(folder)


def _temporary_folder() -> str:
    """Empty where none can be written."""
    try:
        return tempfile.gettempdir()
    except OSError:
        return ""


def cupy_folder_error(error: OSError) -> DeviceError:
    """What to do where CuPy cannot make the folder that CUPY_CACHE_DIR names."""
    return DeviceError(
        f"CuPy cannot write {error.filename} ({error.strerror}): set CUPY_CACHE_DIR to a folder that can be "
        "written, or unset it."
    )


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_ELSEWHERE = "set EVOFLASH_CACHE_DIR to a folder"


@contextmanager
def writing_to_cache() -> Iterator[None]:
    """What fails inside because the cache cannot be written is a CacheError with the cause."""
    try:
        yield
    except OSError as error:
        is_inside = str(error.filename or "").startswith(str(cache_dir()))
        if error.errno in _FULL or is_inside:
            raise cache_error(error) from None
        raise


def put_in_cache(path: Path, content: bytes) -> None:
    """Other processes see the whole file or none. Its folder is made. OSError where it cannot be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    os.replace(file.name, path)


def cache_error(error: OSError) -> CacheError:
    """Why the cache cannot be written, and what to do."""
    cause = error.strerror or str(error)
    if error.errno in _FULL:
        return CacheError(
            f"the kernel cache {cache_dir()} cannot be written ({cause}): free space there, or {_ELSEWHERE} "
            "on another disk."
        )
    return CacheError(
        f"the kernel cache {cache_dir()} cannot be written ({cause}): {_ELSEWHERE} that can be written."
    )


def check_cache_runs(path: Path) -> None:
    """CacheError where the file system of that file in the cache lets no program run, as a library would."""
    if os.statvfs(path).f_flag & os.ST_NOEXEC:
        raise CacheError(
            f"the kernel cache {cache_dir()} is on a file system that is mounted noexec, which lets no "
            f"program run from it: {_ELSEWHERE} elsewhere."
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
    return str(home_folder("data") / "evoflash.db")


def usual_places() -> dict[str, str]:
    """For people, where the database and the cache are while no setting says another place, by setting;
    nothing of one for which no home folder is known.
    """
    usual, home = dict[str, str](), os.path.join(os.path.expanduser("~"), "")
    for name, place in (("db", _usual_database), ("cache_dir", lambda: str(home_folder("cache")))):
        with suppress(DeviceError):
            usual[name] = place()
    return {
        name: path.replace(home, "~/", 1) if path.startswith(home) else path for name, path in usual.items()
    }


def state_dir() -> Path:
    """Where the logs of unexpected errors are written."""
    return home_folder("state")
