"""Says what this machine lacks of all that evoflash needs, and what to do about it. Changes nothing."""

import importlib.metadata
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from evoflash.errors import EvoflashError
from evoflash.gpu.launcher import present_gpu, present_spec, spec_of
from evoflash.gpu.timing import noise_floor as noise_floors
from evoflash.gpu.timing.noise_floor import describe as describe_noise
from evoflash.kernels.family import known_families, load_family
from evoflash.notices import say
from evoflash.paths import cache_dir, default_database
from evoflash.specs import known_gpus, load_gpu


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One thing examined; state is "ok", "absent" (works without) or "missing" (must be mended)."""

    subject: str
    state: str
    detail: str


def examine() -> list[Diagnosis]:
    """Every finding, in the order in which a newcomer would mend them."""
    checks: list[tuple[str, str, Callable[[], str]]] = [
        ("python packages", "missing", _packages),
        ("templates", "missing", _templates),
        ("extensions", "missing", _extensions),
        ("NVRTC", "missing", _nvrtc),
        ("host compiler", "missing", _host_compiler),
        ("kernel cache", "missing", lambda: _writable(cache_dir())),
        ("database folder", "missing", _database),
        ("GPU", "absent", _gpu),
        ("torch baselines", "absent", _torch),
        ("noise floor", "absent", _noise),
    ]
    return [_find(*check) for check in checks]


def _find(subject: str, otherwise: str, check: Callable[[], str]) -> Diagnosis:
    try:
        return Diagnosis(subject, "ok", check())
    except EvoflashError as error:
        return Diagnosis(subject, otherwise, str(error))
    except (OSError, ImportError, subprocess.SubprocessError) as error:
        return Diagnosis(subject, otherwise, f"{error}")


def measure_noise() -> tuple[list[noise_floors.NoiseEstimate], float]:
    """How far apart copies of a kernel seem to be on this GPU, and what counts as equal from now on."""
    floors = noise_floors.measure(present_spec(None), said=say)
    return floors, noise_floors.floor()


def _packages() -> str:
    names = ("numpy", "jinja2", "sqlalchemy", "alembic", "typer", "pebble", "platformdirs")
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)


def _templates() -> str:
    return ", ".join(f"{name} {load_family(name).version}" for name in known_families())


def _extensions() -> str:
    """What the extension folders hold; an EvoflashError of the first file that does not load."""
    from evoflash.extensions import describe_folder, extension_folders
    from evoflash.strategies import check_loads
    from evoflash.strategies.operators import operators

    for name in known_gpus():
        load_gpu(name)
    operators()
    check_loads()
    return "; ".join(map(describe_folder, extension_folders())) or "none"


def _nvrtc() -> str:
    from evoflash.kernels.nvrtc import nvrtc_version, supports_arch

    return f"{nvrtc_version()}, compiles for sm_90a: {'yes' if supports_arch('sm_90a') else 'no'}"


def _host_compiler() -> str:
    from evoflash.kernels.gxx import compiler_version, runtime

    runtime()  # builds the emulator, once: the first search need not
    return f"{compiler_version()}; emulator built"


def _writable(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass
    free = shutil.disk_usage(folder).free / 2**30
    return f"{folder}, {free:.0f} GB free"


def _database() -> str:
    target = default_database()
    if "://" in target:
        return target
    return _writable(Path(os.path.expanduser(target)).resolve().parent)


def _gpu() -> str:
    device = present_gpu()
    spec = spec_of(device)
    differences = "; ".join(device.differences(spec))
    return f"{device.device_name} = {spec.name}" + (f"; differs: {differences}" if differences else "")


def _noise() -> str:
    if floor := describe_noise():
        return floor
    raise OSError("not measured for this GPU and driver: `evoflash doctor --noise`, half a minute on a GPU")


def _torch() -> str:
    try:
        return f"torch {importlib.metadata.version('torch')}"
    except importlib.metadata.PackageNotFoundError:
        raise ImportError(
            "torch is not installed: kernels are timed without a rival; pip install torch"
        ) from None
