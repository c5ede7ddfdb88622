"""Says what this machine lacks of all that evoflash needs, and what to do about it. Changes nothing."""

import importlib.metadata
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from evoflash.errors import EvoflashError, UsageError, did_you_mean
from evoflash.gpu.launcher import present_gpu, present_spec, spec_of
from evoflash.gpu.timing import noise_floor as noise_floors
from evoflash.gpu.timing.noise_floor import describe as describe_noise
from evoflash.isolation import IsolatedPool
from evoflash.kernels.family import known_families, load_family
from evoflash.notices import count_of, say
from evoflash.paths import cache_dir, check_cache_runs, default_database, writing_to_cache
from evoflash.specs import known_gpus, load_gpu

_PROCESS_LIMIT_S = 60.0
REQUIRABLE = {"gpu": "GPU", "torch": "torch baselines", "noise": "noise floor"}  # what evoflash works without


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One thing examined; state is "ok", "absent" (works without) or "missing" (must be mended).

    A GPU is absent where there is none, and missing where there is one that cannot be used.
    """

    subject: str
    state: str
    detail: str


def examine(required: Collection[str] = ()) -> list[Diagnosis]:
    """Every finding, in the order in which a newcomer would mend them; `required` subjects are never absent
    but missing.
    """
    checks: list[tuple[str, str, Callable[[], str]]] = [
        ("python packages", "missing", _packages),
        ("templates", "missing", _templates),
        ("extensions", "missing", _extensions),
        ("NVRTC", "missing", _nvrtc),
        ("kernel cache", "missing", _cache),
        ("host compiler", "missing", _host_compiler),
        ("worker processes", "missing", _processes),
        ("database folder", "missing", _database),
        ("GPU", "missing" if _has_nvidia_card() else "absent", _gpu),
        ("torch baselines", "absent", _torch),
        ("noise floor", "absent", _noise),
    ]
    return [
        _find(subject, "missing" if subject in required else otherwise, check)
        for subject, otherwise, check in checks
    ]


def _find(subject: str, otherwise: str, check: Callable[[], str]) -> Diagnosis:
    try:
        return Diagnosis(subject, "ok", check())
    except EvoflashError as error:
        return Diagnosis(subject, otherwise, str(error))
    except (OSError, ImportError, subprocess.SubprocessError) as error:
        return Diagnosis(subject, otherwise, f"{error}")


def wanted_subjects(text: str) -> frozenset[str]:
    """The subjects that --require names. UsageError for a word that is none."""
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in REQUIRABLE:
            raise UsageError(
                f"nothing that can be required is called '{word}'.{did_you_mean(word, REQUIRABLE)} Give some "
                f"of {', '.join(REQUIRABLE)}."
            )
    return frozenset(REQUIRABLE[word] for word in words)


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


def _cache() -> str:
    with writing_to_cache():
        found = _writable(cache_dir())
    check_cache_runs(cache_dir())
    return found


def _processes() -> str:
    count = len(os.sched_getaffinity(0))
    with IsolatedPool(1) as pool:
        ending = pool.submit(os.getpid, timeout_s=_PROCESS_LIMIT_S).result()
    if ending.value is None:
        raise OSError(f"one that was begun gives no answer ({ending.reason}): free processor time and memory")
    return f"can be started; {count_of(count, 'core')}"


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


def _has_nvidia_card() -> bool:
    """Whether one is on the bus, and nobody has hidden it from this process on purpose."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        return False
    return any(
        _text(card / "vendor") == "0x10de" and _text(card / "class").startswith("0x03")
        for card in Path("/sys/bus/pci/devices").glob("*")
    )


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def _noise() -> str:
    if floor := describe_noise():
        return floor
    raise OSError("not measured for this GPU and driver: `evoflash doctor --noise`, half a minute on a GPU")


def _torch() -> str:
    try:
        return f"torch {importlib.metadata.version('torch')}"
    except importlib.metadata.PackageNotFoundError:
        raise ImportError(
            "torch is not installed: kernels are timed without a rival: pip install torch"
        ) from None
