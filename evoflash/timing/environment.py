"""The machine's software in words: versions, and what is stored beside every run. Mends and judges nothing.

`evoflash doctor` (commands/doctor/) says what is missing and what to do about it.
"""

import importlib.metadata
import platform

from evoflash import __version__
from evoflash.errors import EvoflashError


def versions() -> str:
    """evoflash, CuPy, NVRTC and driver, for --version and for bug reports."""
    parts = [f"evoflash {__version__}", f"CuPy {cupy_version() or 'none'}"]
    for name, check in (("NVRTC", nvrtc_version), ("driver", driver_version)):
        try:
            parts.append(f"{name} {check()}")
        except (EvoflashError, OSError, ImportError):
            parts.append(f"{name} none")
    return ", ".join(parts)


def environment() -> dict[str, str]:
    """What is stored beside every run."""
    found = {"versions": versions(), "python": platform.python_version(), "machine": platform.machine()}
    if floor := noise_floor():
        found["noise"] = floor
    return found


def cupy_version() -> str | None:
    """CuPy's version from its package's metadata; None when no package of it is installed."""
    for name in ("cupy-cuda13x", "cupy-cuda12x", "cupy"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def nvrtc_version() -> str:
    """NVRTC's version. EvoflashError when it cannot be loaded."""
    from evoflash.compilers.nvrtc import nvrtc_version

    return nvrtc_version()


def driver_version() -> str:
    """The NVIDIA driver's version, by NVML. OSError when there is no driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError as error:
        raise OSError(f"no NVIDIA driver ({error})") from None


def noise_floor() -> str:
    """The machine's noise floor in one line; empty where it was never measured."""
    from evoflash.timing import noise_floor as noise

    return noise.describe()
