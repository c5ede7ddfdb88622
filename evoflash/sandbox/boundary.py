"""Says how a command is run so that it can harm nothing: by bubblewrap, or by Landlock and seccomp.

Inside there is no network; the system's programs and what the command must read are there to be read, one
folder and a /tmp of its own to be written; the environment is empty. The limit on memory is held from outside
(process.py). Starts nothing but a trial.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from evoflash.errors import SandboxError
from evoflash.sandbox import confinement

Kind = Literal["bubblewrap", "landlock", "none"]
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_LOADER = ("/etc/ld.so.cache", "/etc/alternatives")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
_LIMITS = {"file_bytes": 1 << 30, "files": 256, "cpu_s": 600}
_WITH_GPU = {"files": 1024}  # a driver opens each device many times
_MOST_PROCESSES = 64  # beside those that the user has: the system counts them together
_PACKAGE = Path(__file__).resolve().parents[1]
_OF_DRIVER = ("/proc", "/sys")  # where a GPU's driver looks for devices and for memory
# What root may change without any capability.
_OF_ADMINISTRATOR = tuple(f"/proc/{name}" for name in ("sys", "sysrq-trigger", "irq", "bus", "acpi", "fs"))
_OWN_THREADS = "/proc/self/task"  # which it names; it does not begin where it cannot
# Which GPU is meant, and where the driver's library lies: of the caller's environment, all that is told.
_DRIVER_NAMES = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "LD_LIBRARY_PATH")
_PATH = "/usr/local/bin:/usr/bin:/bin"
_TRIAL_S = 20.0
_LAUNCHER = str(Path(confinement.__file__))


@dataclass(frozen=True, slots=True)
class Boundary:
    """One way of keeping a command in."""

    kind: Kind
    has_gpu: bool = False  # whether a command may reach this machine's GPU, and read what its driver asks for

    def command(self, argv: Sequence[str], *, read: Sequence[Path] = (), write: Path) -> list[str]:
        """The command line that runs `argv` inside; it may read the system, Python and `read`, and write
        `write`, which is its TMPDIR too, at the same paths as outside.
        """
        if self.kind == "none":
            return list(argv)
        readable = [*_python_folders(), *map(str, read)]
        devices = _gpu_devices() if self.has_gpu else ()
        threads = (_OWN_THREADS,) if self.has_gpu else ()
        told = {
            "landlock": self.kind == "landlock",
            "read": [*_SYSTEM, *_LOADER, *readable, *(_OF_DRIVER if self.has_gpu else ())],
            "write": [*_DEVICES, *devices, *threads, str(write)],
            "names": [str(_PACKAGE.parent)],  # where Python looks for the package
            "limits": self._limits(),
            "has_gpu": self.has_gpu,
        }
        inner = [sys.executable, "-I", "-S", _LAUNCHER, json.dumps(told), "--", *argv]
        if self.kind == "landlock":
            return inner
        shown = [word for each in devices for word in ("--dev-bind", each, each)]
        if self.has_gpu:
            shown += ["--proc", "/proc", "--ro-bind", "/sys", "/sys"]
            for place in _OF_ADMINISTRATOR:
                shown += ["--ro-bind-try", place, place]
        return [*_bubblewrap(readable, write, shown), *inner]

    def environment(self, write: Path) -> dict[str, str]:
        """All that the command finds in its environment."""
        names = _DRIVER_NAMES if self.has_gpu else ()
        driver = {name: os.environ[name] for name in names if name in os.environ}
        return {
            **{"PATH": _PATH, "LC_ALL": "C", "HOME": str(write), "TMPDIR": str(write)},
            **_for_python(),
            **driver,
        }

    def _limits(self) -> dict[str, int]:
        more = _WITH_GPU if self.has_gpu else {}
        return {**_LIMITS, **more, "processes": _MOST_PROCESSES + _processes_of_user()}


@cache
def _python_folders() -> tuple[str, ...]:
    """Where this Python and its packages are; other folders in which it looks for modules are not shown."""
    places = [sys.prefix, sys.base_prefix, os.path.realpath(sys.executable), *_site_folders(), str(_PACKAGE)]
    return tuple(dict.fromkeys(each for each in places if os.path.exists(each)))


@cache
def _processes_of_user() -> int:
    """With their threads."""
    count, user = 0, os.getuid()
    for process in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ()):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{process}").st_uid == user:
                count += len(os.listdir(f"/proc/{process}/task"))
    return count


@cache
def _site_folders() -> tuple[str, ...]:
    """The folders with installed packages in which this Python looks, wherever pip has put them."""
    return tuple(
        each
        for each in sys.path
        if each.endswith(("site-packages", "dist-packages"))
        or (each and next(Path(each).glob("*.dist-info"), None))
    )


def _for_python() -> dict[str, str]:
    """Our package, which need not be installed where Python looks, and one thread each for NumPy."""
    return {
        "PYTHONPATH": os.pathsep.join((str(_PACKAGE.parent), *_site_folders())),
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _gpu_devices() -> tuple[str, ...]:
    return tuple(sorted(str(each) for each in Path("/dev").glob("nvidia*")))


def _bubblewrap(readable: Sequence[str], write: Path, shown: Sequence[str]) -> list[str]:
    command = [
        *("bwrap", "--unshare-all", "--die-with-parent", "--new-session"),
        *("--uid", "65534", "--gid", "65534", "--cap-drop", "ALL", "--hostname", "sandbox"),
    ]
    for folder in _SYSTEM:
        if os.path.islink(folder):
            command += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            command += ["--ro-bind", folder, folder]
    for place in _LOADER:
        command += ["--ro-bind-try", place, place]
    command += ["--dev", "/dev", "--tmpfs", "/tmp"]
    for place in readable:
        if not os.path.realpath(place).startswith("/usr"):
            command += ["--ro-bind", place, place]
    return [
        *command,
        *shown,
        "--bind",
        str(write),
        str(write),
        "--remount-ro",
        "/",
        "--chdir",
        str(write),
        "--",
    ]


def found_boundary(*, is_unsafe: bool = False) -> Boundary:
    """The strongest that works here; SandboxError where none does, but with `is_unsafe` none at all."""
    for kind in ("bubblewrap", "landlock"):
        if _works(kind):
            return Boundary(kind)
    if is_unsafe:
        return Boundary("none")
    raise SandboxError(
        "there is no sandbox here for a kernel of somebody else: install bubblewrap (apt-get install "
        "bubblewrap) and let it make user name spaces, or use Linux 6.7 or later with Landlock; --unsafe "
        "runs the kernel with all of your rights."
    )


@cache
def _works(kind: Kind) -> bool:
    """Whether a command comes to its end in it, and cannot read what it must not."""
    if kind == "bubblewrap" and not shutil.which("bwrap"):
        return False
    if kind == "landlock" and not (
        confinement.can_filter() and confinement.landlock_version() >= confinement.LEAST_LANDLOCK
    ):
        return False
    with tempfile.TemporaryDirectory(prefix="evoflash-") as folder:
        trial = "test -r /usr/bin && ! cat /etc/passwd >/dev/null 2>&1"
        write = Path(folder)
        boundary = Boundary(kind)
        try:
            ended = subprocess.run(
                boundary.command(["/bin/sh", "-c", trial], write=write),
                env=boundary.environment(write),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TRIAL_S,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return False
    return ended.returncode == 0
