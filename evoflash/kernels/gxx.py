"""Builds the emulator's runtime and rendered kernels with g++. Runs neither.

Libraries are kept by a hash of sources, compiler version and flags, and put in place whole: several processes
may build the same one at once. One that was cut or changed since is built again.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
import threading
from concurrent.futures import Future
from functools import cache
from pathlib import Path

from evoflash.errors import DeviceError, EvoflashError
from evoflash.kernels.cached_files import is_whole_library, seal_library
from evoflash.kernels.ef_layer import made_headers, wgmma_shapes
from evoflash.paths import DEVICE, EMU, cache_dir, check_cache_runs, put_in_cache, writing_to_cache
from evoflash.sandbox.boundary import Boundary
from evoflash.sandbox.process import ProcessLimits, run_inside

# -U_FORTIFY_SOURCE: some distributions add it, and its longjmp and stack checks do not know our stacks.
_COMMON_FLAGS = ("-std=c++17", "-ffp-contract=off", "-fPIC", "-shared", "-U_FORTIFY_SOURCE")
_RUNTIME_FLAGS = (*_COMMON_FLAGS, "-O2", "-ftree-vectorize", "-fno-semantic-interposition", "-g1")
# What a kernel's library does without, so that g++ takes three quarters of the time: passes that do not pay
# for themselves in a run of 50 ms, and the standard libraries, which the process has loaded anyway.
_QUICK = (
    *("-nostdlib", "-fno-exceptions", "-fno-tree-pta", "-fno-tree-sra", "-fno-use-linker-plugin"),
    *("-fira-algorithm=priority", "-fira-region=one"),  # a tenth of g++'s time; runs take as long as before
)
# The two sanitizer flags turn a register array's index out of bounds into a trap, which becomes a report;
# stack probes keep a large frame from stepping over the guard page below its stack.
_KERNEL_FLAGS = (
    *(*_COMMON_FLAGS, "-Og", "-g1", "-w", *_QUICK),
    *("-fsanitize=bounds", "-fsanitize-undefined-trap-on-error", "-fstack-clash-protection"),
)
# -Bsymbolic: an entry that is called like a function of the C library is the kernel's own all the same.
_LINKED = ("-Wl,-Bsymbolic",)
# A call before every load and store that is left after optimisation, of functions of the emulator's own
# (emu/plain_accesses.cpp), so that none may hide in a call of memcpy or in code that g++ writes out for it.
# A run has many of them: -O1 takes 50 ms more to compile, and two thirds of the time to run.
_COPIES = ("memcpy", "memmove", "memset", "memcmp")
_SEEN = (
    *("-O1", "-fno-tree-dse", "-fno-dse"),  # a store of what is there already is one, too
    *("-fsanitize=thread", "-fno-tree-loop-distribute-patterns", "-include", "seen_layer.h"),
    *(f"-fno-builtin-{name}" for name in _COPIES),
    *(f"-Wl,--wrap={name}" for name in _COPIES),
)
_SEEN_FROM_11 = ("--param=tsan-distinguish-volatile=1",)
# The line that each primitive is given becomes a number that knows the calls that led to it.
_CALLERS = ("-D__builtin_LINE()=::efemu::site(__builtin_LINE())",)
_NO_SPACE = tuple(map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)))
_MOST_COMPILING_S, _MOST_COMPILING_BYTES = 60.0, 2 << 30  # for a text of somebody else
_NO_TEMPORARY = "Cannot create temporary file"
# The runtime's files that run at every access and every switch of threads: one unit, so that they are
# inlined into each other.
_INNER = frozenset(
    {
        *("barrier", "clocks", "copies", "counters", "fiber", "global"),
        *("history", "path", "plain_accesses", "report", "scheduler", "shared", "warp"),
    }
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
    if is_whole_library(library):
        return library
    with writing_to_cache():
        library.parent.mkdir(parents=True, exist_ok=True)
        check_cache_runs(library.parent)
        # Of several processes that come at the same time one builds it; the others would only slow it down.
        with (library.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            log = "" if is_whole_library(library) else _compile_runtime(library)
    if log:
        raise DeviceError(
            f"the emulator's runtime does not compile: {_first_error(log)}; use g++ 9 or later."
        )
    return library


def begin_runtime() -> None:
    """Begin to build the runtime, where g++ is there and it was not built yet; whoever wants it waits for it,
    and hears what is wrong.
    """

    def build_runtime() -> None:
        with contextlib.suppress(EvoflashError):
            runtime()

    if platform.system() == "Linux" and shutil.which("g++"):
        threading.Thread(target=build_runtime, name="evoflash-runtime", daemon=True).start()


def _runtime_units() -> tuple[str, ...]:
    """The runtime in texts that are compiled at the same time: what every access goes through, which takes as
    long as the rest in two parts.
    """
    files = sorted(EMU.glob("*.cpp"))
    inner = [file for file in files if file.stem in _INNER]
    outer = [file for file in files if file.stem not in _INNER]
    parts = (inner, outer[::2], outer[1::2])
    return tuple("".join(f'#include "{file}"\n' for file in part) for part in parts)


def _compile_runtime(library: Path) -> str:
    """Compile all parts at once and link them; "" or the compiler's log."""
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        units = _runtime_units()
        objects = [str(Path(folder) / f"{number}.o") for number in range(len(units))]
        logs: list[Future[str]] = [Future() for _ in units]
        for text, made, log in zip(units, objects, logs, strict=True):
            # Not in a pool of threads: a program that ends meanwhile would wait for it.
            threading.Thread(target=_compile_unit, args=(text, made, log), daemon=True).start()
        said = [log.result() for log in logs]
        product = Path(folder) / library.name
        log_of_all = next(filter(None, said), "") or _gxx(*_RUNTIME_FLAGS, *objects, "-o", str(product))
        if not log_of_all:
            seal_library(product)
            product.replace(library)
    return log_of_all


def _compile_unit(text: str, made: str, log: "Future[str]") -> None:
    try:
        log.set_result(_gxx(*_RUNTIME_FLAGS, "-c", "-x", "c++", "-", "-o", made, text=text))
    except BaseException as error:  # whoever waits for it is told
        log.set_exception(error)


def build(
    source: str,
    *,
    name: str,
    tells_callers: bool = False,
    sees_all: bool = False,
    boundary: Boundary | None = None,
) -> Path:
    """The shared library of a rendered kernel, from the cache if it is there. Raises KernelBuildError.

    `name` is a file name for debuggers to show; reports give lines of `source`. With `tells_callers` a run
    can tell apart the calls that lead to a line (`watched` of the emulator's run()). With `sees_all` the
    emulator also sees what the text loads and stores without its primitives. Both are slower. g++ runs
    inside of the `boundary`, if there is one: it reads what a text names.
    """
    text = _with_launch_bounds(source)
    version = compiler_version()  # says it where there is no compiler
    flags = (*_kernel_flags(), *(_CALLERS if tells_callers else ()), *(_seen_flags() if sees_all else ()))
    key = _digest(source, text, name, _sources_digest(), version, *flags)
    library = cache_dir() / "emulator" / key / f"{name}.so"
    if is_whole_library(library):
        return library
    with writing_to_cache():
        log = _compile(source, text, library, flags, boundary)
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
def _gxx_major() -> int:
    command = ["g++", "-dumpversion"]
    version = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return int(version.split(".")[0])


def _seen_flags() -> tuple[str, ...]:
    return (*_SEEN, *(_SEEN_FROM_11 if _gxx_major() >= 11 else ()))


@cache
def _kernel_flags() -> tuple[str, ...]:
    """g++ 12 and later also fill registers that were never set with garbage instead of zeros.

    The gold linker, where there is one, takes 12 ms for a kernel that takes GNU ld 36.
    """
    garbage = () if _gxx_major() < 12 else ("-ftrivial-auto-var-init=pattern",)
    linker = ("-fuse-ld=gold",) if shutil.which("ld.gold") else ()
    return (*_KERNEL_FLAGS, *garbage, *linker, *_LINKED)


@cache
def _sources_digest() -> str:
    files = [*sorted(EMU.glob("*.h")), *sorted(EMU.glob("*.cpp")), *sorted(DEVICE.glob("*.h"))]
    return _digest(*(file.read_text() for file in files), wgmma_shapes())


def _first_error(log: str) -> str:
    errors = [line for line in log.splitlines() if "error:" in line]
    return (errors or log.splitlines() or ["g++ said nothing"])[0].strip()


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def _compile(source: str, text: str, library: Path, flags: tuple[str, ...], boundary: Boundary | None) -> str:
    """Compile `text`, whose lines are those of `source`, to `library`; "" or the compiler's log.

    Others may do the same at once.
    """
    library.parent.mkdir(parents=True, exist_ok=True)
    # Left beside the library: it is what reports' lines and debuggers refer to.
    shown = library.with_suffix(".cu")
    put_in_cache(shown, source.encode())
    named = str(shown).replace("\\", "\\\\").replace('"', '\\"')
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        product = Path(folder) / library.name
        shown_text = f'# 1 "{named}"\n{text}'
        log = _gxx(*flags, "-x", "c++", "-", "-o", str(product), text=shown_text, boundary=boundary)
        if not log:
            seal_library(product)
            product.replace(library)
    return log


_BOUNDED = re.compile(
    r"__launch_bounds__\s*\(((?:[^(),]|\([^()]*\))+)(?:,(?:[^()]|\([^()]*\))*)?\)\s*(?:void\s+)?(\w+)\s*\("
)


def _with_launch_bounds(text: str) -> str:
    """The text with the threads of each exported kernel's __launch_bounds__, for the runtime to look up.

    They stand on the line of its EF_EXPORT_KERNEL: no line moves, and the same names are known there.
    """
    for threads, name in _BOUNDED.findall(text):
        value = f"efemu_bound_{name} = ({' '.join(threads.split())});"
        export = re.search(rf"^EF_EXPORT_KERNEL\({name}\)(?=\s*$)", text, re.MULTILINE)
        if export:
            bound = f' extern "C" {{ extern const efemu::u32 {value} }}'
            text = text[: export.end()] + bound + text[export.end() :]
    return text


def _gxx(*arguments: str, text: str | None = None, boundary: Boundary | None = None) -> str:
    """Run g++ in English, with `text` as its input; "" or, on failure, what it said.

    DeviceError when there is no room for what it writes.
    """
    folders = (DEVICE, EMU, made_headers())  # ef_base.h names ../emu/interface.h
    command = ["g++", *(f"-I{folder}" for folder in folders), *arguments]
    if boundary is not None:
        outcome = _compile_inside(boundary, command, text or "", folders)
    else:
        plain = {**os.environ, "LC_ALL": "C"}
        outcome = subprocess.run(command, input=text, env=plain, capture_output=True, text=True, check=False)
    if any(words in outcome.stderr for words in _NO_SPACE):  # no fault of the text
        raise DeviceError(
            f"g++ cannot write, the disk is full: free space in {cache_dir()} and in the folder for "
            "temporary files (TMPDIR), then run the same command again."
        )
    if _NO_TEMPORARY in outcome.stderr:
        raise DeviceError("g++ has no folder for temporary files: set TMPDIR to one that can be written.")
    return outcome.stderr or f"g++ ended with code {outcome.returncode}" if outcome.returncode else ""


def _compile_inside(
    boundary: Boundary, command: list[str], text: str, folders: tuple[Path, ...]
) -> "subprocess.CompletedProcess[str]":
    """g++ where it can read its headers and nothing else, and write the folder of its output alone."""
    program = shutil.which(command[0]) or command[0]
    place = Path(command[command.index("-o") + 1]).parent
    limits = ProcessLimits(_MOST_COMPILING_S, _MOST_COMPILING_BYTES)
    ended = run_inside(boundary, [program, *command[1:]], text=text, read=folders, write=place, limits=limits)
    if ended.broken_limit:
        said = f"error: the compiler took more than {ended.broken_limit}, and was ended"
        return subprocess.CompletedProcess(command, 1, "", said)
    return subprocess.CompletedProcess(command, ended.exit_code, "", ended.stderr)
