"""What two machines must have alike to share a search: evoflash, its templates, the compiler. Compares
nothing.

A worker offers its code as a Dask resource, and a search asks for that resource: a worker of another version
is never given a task, and need not be found out by its results.
"""

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from evoflash import __version__
from evoflash.compilers.nvrtc import nvrtc_version
from evoflash.paths import DEVICE, template_folders

ON_A_GPU = 2  # questions: one runs, and the next one waits in the queue of the GPU process
_PACKAGE = DEVICE.parent
_KINDS = (".py", ".h", ".cpp", ".cu", ".toml", ".j2")


@cache
def code() -> str:
    """Version, NVRTC, and eight digits over all source files and templates; DeviceError without NVRTC."""
    digest = hashlib.sha256()
    for folder in (_PACKAGE, *template_folders()):
        for file in _sources(folder):
            digest.update(f"{file.relative_to(folder)}\0".encode() + file.read_bytes())
    return f"evoflash {__version__}, NVRTC {nvrtc_version()}, code {digest.hexdigest()[:8]}"


def _sources(folder: Path) -> Iterable[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in _KINDS and path.is_file())


def resources(*, gpu: str | None) -> dict[str, float]:
    """What a worker of this machine offers: its code, and a core or one GPU of the named model, each for as
    many questions as it takes at the same time.
    """
    if gpu is None:
        return {code(): 1.0, "CPU": 1.0}
    return dict.fromkeys((code(), "GPU", f"GPU {gpu}"), float(ON_A_GPU))
