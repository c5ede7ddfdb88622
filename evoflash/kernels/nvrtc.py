"""Compiles CUDA text with NVRTC to machine code and its figures. Needs no GPU and no driver, loads nothing.

One folder of the cache holds one kernel: kernel.cu, kernel.cubin, log.txt, build.json and their digest. It is
written beside and renamed into place, so that a half-written one cannot be taken for a kernel; what does not
fit its digest is compiled anew.
"""

import hashlib
import importlib.util
import json
import os
import re
import shutil
import struct
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

from evoflash.blame import compiling
from evoflash.errors import DeviceError
from evoflash.evaluation import Build, Candidate
from evoflash.extras import install
from evoflash.kernels.cached_files import is_whole_folder, seal_folder
from evoflash.kernels.ef_layer import nvrtc_headers, source_sha
from evoflash.paths import cache_dir, cache_error, cupy_folder_error, keep_cupy_at_home
from evoflash.workload import CompileKey

# One constant for compiler, cache key and the exported file's banner. No fast-math, no ftz: an
# approximation is an explicit ef:: call, so that plain nvcc compiles the same program.
FLAGS = ("-std=c++17", "--ptxas-options=-v")

# NVRTC's own cache, where a driver is, hands back machine code without what ptxas said of it: registers,
# spills and warnings (NVIDIA/cuda-python, issue 1124). It has one from this version on, and this option.
_HAS_CACHE, _NO_CACHE = (12, 9), "--no-cache"
_REGISTERS = re.compile(r"Used (\d+) registers")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_STATIC_SMEM = re.compile(r"(\d+) bytes smem")
_WARNING = re.compile(r"^.*(?:\bwarning\b|\(C7\d\d\d\)|\bC7\d\d\d\b).*$", re.MULTILINE)


def compile_candidate(candidate: Candidate) -> Build:
    """The candidate's Build, from the cache or from NVRTC; `ok` is False when NVRTC refuses the text.

    Raises DeviceError when there is no NVRTC, and OSError text as DeviceError when the cache is unwritable.
    """
    key = cubin_key(candidate)
    cached = _read(_folder(key), candidate.compile_key)
    if cached is not None:
        # The text names its genome, so another genome cannot meet this key.
        return cached
    build, cubin = _compile(candidate, key)
    return _keep(build, cubin, candidate.source)


def has_its_code(build: Build) -> bool:
    """Whether the file with the build's machine code is there, and holds the code that it was built with."""
    try:
        image = Path(build.cubin_path).read_bytes()
        return len(image) == _elf_size(image) and text_sha(image) == build.text_sha
    except (OSError, ValueError, IndexError, struct.error):
        return False


def cached_source(build: Build) -> str | None:
    """The text that the build was made of, from the cache; None where that is gone or another text."""
    if not build.cubin_path:
        return None
    try:
        text = Path(build.cubin_path).with_name("kernel.cu").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return text if source_sha(text) == build.source_sha else None


def cubin_key(candidate: Candidate) -> str:
    """What decides the machine code: text and ef:: layer, arch, flags, and the full NVRTC version."""
    parts = (candidate.source_sha, candidate.compile_key.arch, *FLAGS, nvrtc_version())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@cache
def nvrtc_version() -> str:
    """The compiler's own build number ("13.4.92"), read from the comment that it writes into PTX."""
    nvrtc = _nvrtc()
    program = nvrtc.createProgram("", "version.cu", [], [])
    nvrtc.compileProgram(program, ["-arch=compute_80"])
    match = re.search(r"release [\d.]+, V([\d.]+)", str(nvrtc.getPTX(program)))
    nvrtc.destroyProgram(program)
    return match[1] if match else ".".join(map(str, nvrtc.getVersion()))


def supports_arch(arch: str) -> bool:
    """Whether the NVRTC at hand compiles for an arch such as "sm_90a"."""
    number = int(re.sub(r"\D", "", arch))
    return number in _nvrtc().getSupportedArchs()


@cache
def _nvrtc() -> Any:
    keep_cupy_at_home()
    try:
        from cupy.cuda import nvrtc

        nvrtc.getVersion()
    except Exception as error:  # CuPy raises ImportError, RuntimeError or its own class, by what is missing
        if isinstance(error, OSError) and error.filename:
            raise cupy_folder_error(error) from None
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DeviceError(
            f"NVRTC cannot be used ({reason[:120]}): install the CUDA wheels, {install('cuda13')}; with a "
            f"driver before 580 {install('cuda12')}."
        ) from None
    return nvrtc


def _compile(candidate: Candidate, key: str) -> tuple[Build, bytes]:
    nvrtc = _nvrtc()
    texts, names = nvrtc_headers(candidate.source)
    program = nvrtc.createProgram(candidate.source, f"{candidate.genome.family}.cu", texts, names)
    started = time.perf_counter()
    try:
        with compiling():
            nvrtc.compileProgram(program, [*options(candidate.compile_key.arch), *_folders(candidate.source)])
        ok = True
    except nvrtc.NVRTCError:
        ok = False
    elapsed = time.perf_counter() - started
    log = nvrtc.getProgramLog(program)
    cubin = _whole_elf(nvrtc.getCUBIN(program)) if ok else b""
    nvrtc.destroyProgram(program)
    build = Build(
        genome_id=candidate.genome.id,
        compile_key=candidate.compile_key,
        source_sha=candidate.source_sha,
        cubin_key=key,
        ok=ok,
        compile_s=elapsed,
        log=log,
    )
    return (replace(build, text_sha=text_sha(cubin), **resources(log)) if ok else build), cubin


def options(arch: str) -> list[str]:
    """What NVRTC is called with; beside FLAGS nothing that decides the machine code but the architecture."""
    uncached = [_NO_CACHE] if tuple(_nvrtc().getVersion()) >= _HAS_CACHE else []
    return [*FLAGS, f"-arch={arch}", *uncached]


def _folders(source: str) -> list[str]:
    """Where CUDA's own headers lie, for a text that includes some."""
    if not re.search(r"^#include <", source, re.MULTILINE):
        return []
    return [f"-I{folder}" for folder in _header_folders()]


@cache
def _header_folders() -> tuple[Path, ...]:
    """Of the toolkit's wheels, or of an installed toolkit; and of libcu++, which CuPy brings."""
    import cupy

    libcu = Path(cupy.__file__).parent / "_core" / "include" / "cupy" / "_cccl" / "libcudacxx"
    wheels = importlib.util.find_spec("nvidia")
    places = [Path(place) for place in (wheels.submodule_search_locations or () if wheels else ())]
    found = [header.parent for place in places for header in sorted(place.glob("*/include/cuda_fp16.h"))]
    installed = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"
    return (*(found or [installed])[:1], libcu, libcu / "cuda" / "std")


def function_names(cubin: bytes) -> tuple[str, ...]:
    """The kernels in machine code, by the names that C++ gave them."""
    return tuple(name.removeprefix(".text.") for name, _ in _sections(cubin) if name.startswith(".text."))


def resources(log: str) -> dict[str, Any]:
    """Registers, spills, stack, static smem and warnings of the one kernel that a ptxas -v log describes."""
    spills = [tuple(map(int, found)) for found in _SPILLS.findall(log)]
    return {
        "registers": max(map(int, _REGISTERS.findall(log)), default=0),
        "stack_bytes": sum(stack for stack, _, _ in spills),
        "spill_bytes": sum(stores + loads for _, stores, loads in spills),
        "smem_static_bytes": max(map(int, _STATIC_SMEM.findall(log)), default=0),
        "warnings": tuple(line.strip() for line in _WARNING.findall(log)),
    }


def first_error(log: str) -> str:
    """The one line of a compiler log that says what is wrong."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next(
        (line for line in lines if "error" in line or "fatal" in line), lines[0] if lines else "no log"
    )


def _folder(key: str) -> Path:
    return cache_dir() / "kernels" / key[:2] / key


def _read(folder: Path, key: CompileKey) -> Build | None:
    if not is_whole_folder(folder):
        return None
    fields = json.loads((folder / "build.json").read_text(encoding="utf-8"))
    fields["compile_key"] = key
    fields["warnings"] = tuple(fields["warnings"])
    return Build(**{**fields, "cubin_path": str(folder / "kernel.cubin") if fields["ok"] else ""})


def _keep(build: Build, cubin: bytes, source: str) -> Build:
    folder = _folder(build.cubin_key)
    beside = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".new-"))
        (beside / "kernel.cu").write_text(source, encoding="utf-8")
        (beside / "kernel.cubin").write_bytes(cubin)
        (beside / "log.txt").write_text(build.log, encoding="utf-8")
        (beside / "build.json").write_text(json.dumps(asdict(build)), encoding="utf-8")
        seal_folder(beside)
        _put_in_place(beside, folder)
    except OSError as error:
        if beside is not None:
            shutil.rmtree(beside, ignore_errors=True)  # a full disk needs its bytes
        raise cache_error(error) from None
    return replace(build, cubin_path=str(folder / "kernel.cubin") if build.ok else "")


def _put_in_place(beside: Path, folder: Path) -> None:
    try:
        os.rename(beside, folder)
    except OSError:
        if is_whole_folder(folder):
            shutil.rmtree(beside)  # another process was first: its folder holds the same kernel
            return
        shutil.rmtree(folder, ignore_errors=True)  # somebody emptied or changed a part of the cache
        os.rename(beside, folder)


def _whole_elf(image: bytes) -> bytes:
    # CuPy 14 strips a trailing NUL that a cubin does not have: put it back.
    return image + b"\0" * (_elf_size(image) - len(image))


def _elf_size(image: bytes) -> int:
    phoff, shoff = struct.unpack_from("<QQ", image, 32)
    phentsize, phnum, shentsize, shnum = struct.unpack_from("<4H", image, 54)
    return int(max(len(image), phoff + phentsize * phnum, shoff + shentsize * shnum))


def text_sha(cubin: bytes) -> str:
    """A hash of the machine code and its constants; names, line info and debug sections do not count."""
    digest = hashlib.sha256()
    for name, data in sorted(_sections(cubin)):
        if name.startswith((".text.", ".nv.constant")):
            digest.update(name.encode() + data)
    return digest.hexdigest()


def _sections(cubin: bytes) -> Iterator[tuple[str, bytes]]:
    (shoff,) = struct.unpack_from("<Q", cubin, 40)
    shentsize, shnum, shstrndx = struct.unpack_from("<3H", cubin, 58)
    headers = [struct.unpack_from("<IIQQQQ", cubin, shoff + i * shentsize) for i in range(shnum)]
    names_at = headers[shstrndx][4]
    for name, kind, _, _, offset, size in headers:
        end = cubin.index(b"\0", names_at + name)
        holds_bytes = kind != 8  # SHT_NOBITS
        yield cubin[names_at + name : end].decode(), cubin[offset : offset + size] if holds_bytes else b""
