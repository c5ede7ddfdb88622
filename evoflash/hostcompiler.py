"""Builds the emulator's runtime and rendered kernels with g++; runs neither.

Libraries are kept by a hash of sources, compiler version and flags, and put in place whole: several processes
may build the same one at once.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from evoflash.errors import DeviceError, EvoflashError
from evoflash.layout import DEVICE, EMU, cache_dir

# -U_FORTIFY_SOURCE: some distributions add it, and its longjmp and stack checks do not know our stacks.
_COMMON_FLAGS = ("-std=c++17", "-ffp-contract=off", "-fPIC", "-shared", "-U_FORTIFY_SOURCE")
_RUNTIME_FLAGS = (*_COMMON_FLAGS, "-O2", "-ftree-vectorize", "-fno-semantic-interposition", "-g1")
# The two sanitizer flags turn a register array's index out of bounds into a trap, which becomes a report;
# stack probes keep a large frame from stepping over the guard page below its stack.
_KERNEL_FLAGS = (
    *(*_COMMON_FLAGS, "-O1", "-g1", "-w"),
    *("-fsanitize=bounds", "-fsanitize-undefined-trap-on-error", "-fstack-clash-protection"),
)


class KernelBuildError(EvoflashError):
    """g++ refused a kernel's text; `log` is everything that it said."""

    def __init__(self, log: str) -> None:
        self.log = log
        super().__init__(f"the kernel does not compile for the emulator: {_first_error(log)}")


def runtime() -> Path:
    """The runtime's shared library, built on first use (some 5 s). DeviceError without g++ or Linux."""
    if platform.system() != "Linux":
        raise DeviceError(
            f"the emulator needs Linux, this is {platform.system()}: use WSL or a container; "
            "all else works without it."
        )
    key = _digest(_sources_digest(), compiler_version(), *_RUNTIME_FLAGS)
    library = cache_dir() / "emulator" / key / "runtime.so"
    if library.exists():
        return library
    units = "".join(f'#include "{unit}"\n' for unit in sorted(EMU.glob("*.cpp")))
    log = _compile(units, library, _RUNTIME_FLAGS, standard_input=True)
    if log:
        raise DeviceError(
            f"the emulator's runtime does not compile: {_first_error(log)}; use g++ 9 or later."
        )
    return library


def build(source: str, *, name: str) -> Path:
    """The shared library of a rendered kernel, from the cache if it is there. Raises KernelBuildError.

    `name` is a file name for debuggers to show; reports give lines of `source`.
    """
    key = _digest(source, name, _sources_digest(), compiler_version(), *_kernel_flags())
    library = cache_dir() / "emulator" / key / f"{name}.so"
    if library.exists():
        return library
    log = _compile(source, library, _kernel_flags(), standard_input=False)
    if log:
        raise KernelBuildError(log)
    return library


@cache
def compiler_version() -> str:
    """g++'s first line about itself. DeviceError without g++."""
    if not shutil.which("g++"):
        raise DeviceError("g++ is missing: install it (apt-get install g++); only the emulator needs it.")
    command = ["g++", "--version"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]


@cache
def _kernel_flags() -> tuple[str, ...]:
    """With g++ 12 and later, also: registers that were never set hold garbage instead of zeros.

    The gold linker, where there is one, takes 12 ms for a kernel that takes GNU ld 36.
    """
    command = ["g++", "-dumpversion"]
    version = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    garbage = () if int(version.split(".")[0]) < 12 else ("-ftrivial-auto-var-init=pattern",)
    linker = ("-fuse-ld=gold",) if shutil.which("ld.gold") else ()
    return (*_KERNEL_FLAGS, *garbage, *linker)


def _sources_digest() -> str:
    files = [*sorted(EMU.glob("*.h")), *sorted(EMU.glob("*.cpp")), *sorted(DEVICE.glob("*.h"))]
    return _digest(*(file.read_text() for file in files))


def _first_error(log: str) -> str:
    errors = [line for line in log.splitlines() if "error:" in line]
    return (errors or log.splitlines() or ["g++ said nothing"])[0].strip()


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def _compile(text: str, library: Path, flags: tuple[str, ...], *, standard_input: bool) -> str:
    """Compile `text` to `library`; "" or, on failure, the compiler's log. Others may do the same at once."""
    library.parent.mkdir(parents=True, exist_ok=True)
    source = library.with_suffix(".cu")
    if not standard_input:
        # Left beside the library: it is what reports' lines and debuggers refer to.
        _write(source, text)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        product = Path(folder) / library.name
        place = "-" if standard_input else str(source)
        command = ["g++", *flags, "-I", str(DEVICE), "-x", "c++", place, "-o", str(product)]
        given = text if standard_input else None
        plain = {**os.environ, "LC_ALL": "C"}
        outcome = subprocess.run(command, input=given, env=plain, capture_output=True, text=True, check=False)
        if outcome.returncode:
            return outcome.stderr or f"g++ ended with code {outcome.returncode}"
        product.replace(library)
    return ""


def _write(path: Path, text: str) -> None:
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        file.write(text)
    os.replace(file.name, path)
