"""Runs one launch of a kernel that g++ built, with every check on. Judges nothing.

What it finds about a kernel is data (an Emulation's reports). It runs in this process: a kernel that goes far
astray can take the process with it, so candidates of unknown quality belong in a worker. kernels/gxx.py
builds.
"""

import _ctypes
import ctypes
import itertools
import json
import math
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import DTypeLike

from evoflash.blame import begin_kernel
from evoflash.errors import DeviceError, UsageError
from evoflash.kernels.gxx import runtime
from evoflash.launch import LaunchConfig, beyond_every_gpu
from evoflash.operation import Delivery, Schedule
from evoflash.paths import check_cache_runs

_MAX_THREADS = 1024
_ARGUMENT_ALIGNMENT = 64  # bytes
_MOST_WATCHED = 4
_FIRST_DISPLACED = 1 << 45  # bytes; kFirstBuffer in emu/global.cpp
_DRAWN_BITS = (1 << 25) - 1
_FIRST_SITE = 1 << 15  # of the numbers that stand for a line and its callers: kFirstSite in emu/call_sites.h
# The runtime keeps the state of one launch.
_one_launch = threading.Lock()

_ANY_LINE = re.compile(r"\bline (\d+)")
_DELIVERIES, _SCHEDULES = get_args(Delivery), get_args(Schedule)


@dataclass(frozen=True, slots=True)
class EmulatorReport:
    """One finding. `line` is where in the kernel's text, `line2` the other place involved; 0 when unknown.

    `callers`: where the function that holds `line` was called from, innermost first, as far as it is known;
    `callers2` the same of `line2`, of a run that was asked to watch that line.
    """

    kind: str  # "race-RAW", "OOB-shared", "DEADLOCK" ...
    line: int
    line2: int
    count: int
    message: str
    callers: tuple[int, ...] = ()
    callers2: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Site:
    """One line's memory accesses of one kind, over the launch; a request is one instruction of one warp."""

    line: int
    op: str  # "lds", "sts", "ldmatrix", "cp_async_shared"; "ldg", "stg", "cp_async_global"
    requests: int
    actual: int  # shared-memory wavefronts, or 32-byte sectors of global memory
    ideal: int


@dataclass(frozen=True, slots=True)
class Emulation:
    """What one launch did. Without reports it ran to its end; counters are totals over its warps.

    After DEADLOCK, LIVELOCK, TIMEOUT, divergence or a fault, the rest of the grid was not run.
    """

    reports: tuple[EmulatorReport, ...]
    counters: dict[str, int]
    sites: tuple[Site, ...]
    seconds: float  # CPU time


class Memory:
    """Global memory for launches: arrays between guard pages, with bounds that the emulator knows.

    A context manager: the arrays are gone when the block ends, and must not be touched after it.
    """

    def __init__(self, displaced: int | None = None) -> None:
        """`displaced` is a seed by which each array's address is drawn, bits 16 to 40: of seeds 2n and 2n + 1
        one has a bit set where the other has not. Without it arrays lie one behind the other.
        """
        self._pointers: list[int] = []
        self._drawn = None if displaced is None else np.random.default_rng(displaced >> 1)
        self._turned = _DRAWN_BITS * ((displaced or 0) & 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _one_launch:
            for pointer in self._pointers:
                _runtime().efemu_free(pointer)
            self._pointers.clear()

    def array(
        self,
        name: str,
        shape: Sequence[int],
        dtype: DTypeLike,
        *,
        writable: bool = False,
        unset: bool = False,
        set_bytes: int = 0,
        lead: int = 0,
        fill: object = None,
    ) -> np.ndarray[Any, Any]:
        """An array of zeros, or of `fill` (whatever broadcasts to the shape). Its address is `ctypes.data`.

        Kernels may write it only if `writable`; this process always may. `unset`: whatever it is filled with,
        a kernel that reads what no kernel has written, but for its first `set_bytes`, is reported. It begins
        `lead` bytes behind a multiple of 256. In a launch, an element of a writable array is one thread's to
        write; the array called "workspace" is held to races only.
        """
        kind = np.dtype(dtype)
        size_bytes = math.prod(shape) * kind.itemsize
        held = set_bytes if unset else size_bytes
        with _one_launch:
            pointer = _runtime().efemu_allocate(
                size_bytes, name.encode(), int(writable), held, lead, self._wanted_address()
            )
        if not pointer:
            raise DeviceError(f"no memory for array '{name}' of {size_bytes} bytes: use smaller shapes.")
        self._pointers.append(pointer)
        raw = (ctypes.c_char * size_bytes).from_address(pointer)
        array: np.ndarray[Any, Any] = np.ndarray(tuple(shape), dtype=kind, buffer=memoryview(raw))
        if fill is not None:
            array[...] = fill
        return array

    def _wanted_address(self) -> int:
        """Where the next array is asked for; 0: behind the others."""
        if self._drawn is None:
            return 0
        return _FIRST_DISPLACED | (int(self._drawn.integers(_DRAWN_BITS + 1)) ^ self._turned) << 16


MOST_TOGETHER = 3584  # threads: kMostTogether of emu/api.cpp


def beyond_emulator(launch: LaunchConfig) -> str:
    """Why the emulator cannot run a launch that some GPU can, in one line; empty where it can."""
    of_block = -(-math.prod(launch.block) // 32) * 32  # each block begins with a new warp
    together = of_block * math.prod(launch.grid if launch.resident else launch.cluster)
    if together <= MOST_TOGETHER:
        return ""
    what = "blocks that wait for one another" if launch.resident else "a cluster"
    return f"{launch.entry}: {what} of {together} threads, the emulator has room for {MOST_TOGETHER} at once"


def run_launch(
    library: Path,
    launch: LaunchConfig,
    arguments: Sequence[np.generic],
    *,
    delivery: Delivery = "random",
    schedule: Schedule = "random",
    seed: int = 1,
    registers: int = 0,
    cpu_limit_s: float = 10.0,
    watched: Sequence[int] = (),
) -> Emulation:
    """Run one launch of a built kernel over its whole grid: block after block, cluster after cluster, or all
    blocks at once where the launch says that they wait for one another. With the random schedule blocks run
    in descending order or in a drawn one, and a few of them at the same time.

    `delivery` says when asynchronous copies land (at once, as late as allowed, any time between), `schedule`
    which runnable thread is next; runs with equal choices and seed are equal. `registers` is what the
    compiler gave a thread, for setmaxnreg's pool; 0 stands for as many as a block of this size may have.
    `watched`: lines, four at most, whose callers the reports give for both of their places; the library must
    have been built to tell callers. What no GPU launches (a grid, shared memory or a block too large) is
    reported as `cannot-launch`, and not run. UsageError if the launch does not fit the kernel (entry,
    arguments, block size).
    """
    if reason := beyond_every_gpu(launch):
        return Emulation((EmulatorReport("cannot-launch", 0, 0, 1, reason),), {}, (), 0.0)
    request, _alive = _request(library, launch, arguments)
    request.delivery = _DELIVERIES.index(delivery)
    request.schedule = _SCHEDULES.index(schedule)
    request.seed = seed
    request.registers = registers
    request.cpu_limit_s = cpu_limit_s
    request.watched = (*watched[:_MOST_WATCHED], *(0,) * (_MOST_WATCHED - len(watched)))
    with _one_launch, _hold(library):
        launched = _runtime().efemu_launch
        begin_kernel()
        answer: dict[str, Any] = json.loads(launched(ctypes.byref(request)))
    if "error" in answer:
        raise UsageError(f"the kernel cannot be launched: {answer['error']}.")
    known = _with_lines(library, answer["call_sites"])
    return Emulation(
        reports=tuple(_report(raw, library, known) for raw in answer["reports"]),
        counters=answer["counters"],
        sites=tuple(Site(_line(line, known), *raw) for line, *raw in answer["sites"]),
        seconds=answer["seconds"],
    )


@contextmanager
def _hold(library: Path) -> Iterator[None]:
    """The library is loaded inside: one that takes the process with it as it loads did so before its kernel
    began. The runtime says what is wrong with one that cannot be loaded.
    """
    _runtime()  # whose functions it takes
    try:
        handle = ctypes.CDLL(str(library))._handle
    except OSError:
        handle = None
    try:
        yield
    finally:
        if handle is not None:
            _ctypes.dlclose(handle)


class _LaunchRequest(ctypes.Structure):
    """efemu::LaunchRequest in emu/api.cpp."""

    _fields_ = (
        ("library", ctypes.c_char_p),
        ("entry", ctypes.c_char_p),
        ("arguments", ctypes.c_void_p),
        ("sizes_bytes", ctypes.c_void_p),
        ("parameters", ctypes.c_uint32),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("cluster", ctypes.c_uint32 * 3),
        ("smem_bytes", ctypes.c_uint32),
        ("registers", ctypes.c_uint32),
        ("resident", ctypes.c_uint32),
        ("dependent", ctypes.c_uint32),
        ("delivery", ctypes.c_uint32),
        ("schedule", ctypes.c_uint32),
        ("seed", ctypes.c_uint32),
        ("cpu_limit_s", ctypes.c_double),
        ("watched", ctypes.c_uint32 * _MOST_WATCHED),
    )


def _request(
    library: Path, launch: LaunchConfig, arguments: Sequence[np.generic]
) -> tuple[_LaunchRequest, tuple[object, ...]]:
    """The launch and its arguments as the runtime reads them, and what must outlive the call."""
    threads = math.prod(launch.block)
    if not 1 <= threads <= _MAX_THREADS or min(launch.grid) < 1:
        raise UsageError(
            f"grid {launch.grid} of blocks {launch.block} cannot be launched: "
            f"a block has 1 to {_MAX_THREADS} threads and no side of the grid is 0."
        )
    values = [_align(np.asarray(argument)) for argument in arguments]
    pointers = (ctypes.c_void_p * len(values))(*(value.ctypes.data for value in values))
    sizes = (ctypes.c_uint32 * len(values))(*(value.itemsize for value in values))
    request = _LaunchRequest(
        library=os.fsencode(library),
        entry=launch.entry.encode(),
        arguments=ctypes.cast(pointers, ctypes.c_void_p),
        sizes_bytes=ctypes.cast(sizes, ctypes.c_void_p),
        parameters=len(values),
        grid=launch.grid,
        block=launch.block,
        cluster=launch.cluster,
        smem_bytes=launch.smem_bytes,
        resident=launch.resident,
        dependent=launch.dependent,
    )
    return request, (values, pointers, sizes)


def _align(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The value where kernels may expect it: tensor maps begin at a multiple of 64 bytes."""
    room = np.zeros(value.itemsize + _ARGUMENT_ALIGNMENT, np.uint8)
    begin = -room.ctypes.data % _ARGUMENT_ALIGNMENT
    place: np.ndarray[Any, Any] = room[begin : begin + value.itemsize].view(value.dtype)
    place[0] = value
    return place


_CallSites = Sequence[tuple[int, list[int]]]  # a line, and offsets into the library


def _report(raw: dict[str, Any], library: Path, sites: _CallSites) -> EmulatorReport:
    offset, calls = raw.pop("code_offset"), raw.pop("calls")
    calls, calls2 = (
        sites[number - _FIRST_SITE][1] if number >= _FIRST_SITE else otherwise
        for number, otherwise in ((raw["line"], calls), (raw["line2"], []))
    )
    for name in ("line", "line2"):
        raw[name] = _line(raw[name], sites)
    raw["message"] = _ANY_LINE.sub(lambda match: f"line {_line(int(match[1]), sites)}", raw["message"])
    if offset:
        raw["line"] = next(iter(lines_of(library, (offset,))), raw["line"])
    callers = _callers(library, calls, raw["line"])
    chain = "".join(f", called from line {line}" for line in callers)
    message = raw["message"].replace(": ", f"{chain}: ", 1)
    callers2 = _callers(library, calls2, raw["line2"])
    return EmulatorReport(**{**raw, "message": message}, callers=callers, callers2=callers2)


def _with_lines(library: Path, sites: _CallSites) -> _CallSites:
    """The sites, where those that are known by their place in the code alone have the line of it."""
    lines = first_lines(library, [tuple(calls) for line, calls in sites if not line])
    return [(line or lines[tuple(calls)], calls) for line, calls in sites]


def _line(number: int, sites: _CallSites) -> int:
    return sites[number - _FIRST_SITE][0] if number >= _FIRST_SITE else number


def _callers(library: Path, calls: Sequence[int], line: int) -> tuple[int, ...]:
    """Lines of the calls that led to the line; none where they led to another one: what lands later lands on
    some other thread's stack, whose callers say nothing.
    """
    at, *callers = lines_of(library, tuple(calls)) or (0,)
    return tuple(callers) if at == line else ()


@cache
def _runtime() -> ctypes.CDLL:
    # RTLD_GLOBAL: the kernels' libraries take the runtime's functions from whatever is loaded already.
    try:
        loaded = ctypes.CDLL(str(runtime()), mode=ctypes.RTLD_GLOBAL)
    except OSError:
        check_cache_runs(runtime())
        raise
    loaded.efemu_allocate.restype = ctypes.c_void_p
    loaded.efemu_allocate.argtypes = (
        *(ctypes.c_uint64, ctypes.c_char_p, ctypes.c_uint32),
        *(ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint64),
    )
    loaded.efemu_free.restype = None
    loaded.efemu_free.argtypes = (ctypes.c_void_p,)
    loaded.efemu_launch.restype = ctypes.c_char_p
    loaded.efemu_launch.argtypes = (ctypes.POINTER(_LaunchRequest),)
    return loaded


Calls = tuple[int, ...]  # offsets into a library: a place, and where that was called from, innermost first


def lines_of(library: Path, calls: Calls) -> tuple[int, ...]:
    """The text's lines at the places, innermost first.

    A call that was inlined counts as well; empty when it cannot be told.
    """
    return _lines(_places(library, calls), calls)


def first_lines(library: Path, sites: Sequence[Calls]) -> dict[Calls, int]:
    """The innermost line of each site's calls; 0 where it cannot be told."""
    places = _places(library, tuple(dict.fromkeys(itertools.chain.from_iterable(sites))))
    return {calls: next(iter(_lines(places, calls)), 0) for calls in sites}


_Lines = tuple[int, ...]
_Places = dict[
    int, tuple[_Lines, _Lines]
]  # by offset: of the text under its name, and under that of g++'s input


def _lines(places: _Places, calls: Calls) -> tuple[int, ...]:
    found = [places.get(offset, ((), ())) for offset in calls]
    # g++ forgets the text's name where a function begins, those of the ef:: layer among them.
    lines = [line for named, _ in found for line in named] or [line for _, other in found for line in other]
    return tuple(line for line, _ in itertools.groupby(lines))


@lru_cache(maxsize=64)
def _places(library: Path, offsets: tuple[int, ...]) -> _Places:
    """By offset its line, and those of the inlined calls that hold it, innermost first."""
    if not offsets or not shutil.which("addr2line"):
        return {}
    said = _teller(library, offsets)
    parts = re.split(r"^0x([0-9a-f]+)$", said, flags=re.MULTILINE)[1:]
    names = (rf"/{re.escape(library.stem)}\.cu", "/<stdin>")
    return {
        int(offset, 16): (_numbers(names[0], text), _numbers(names[1], text))
        for offset, text in zip(parts[::2], parts[1::2], strict=True)
    }


def ask_addr2line(library: Path, offsets: Sequence[int]) -> str:
    """What addr2line says of places in a library."""
    command = ["addr2line", "--addresses", "--inlines", "--exe", str(library), *map(hex, offsets)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


Teller = Callable[[Path, Sequence[int]], str]
_teller: Teller = ask_addr2line


def ask_instead(teller: Teller) -> None:
    """From now on ask this for what addr2line says: in a process that may start no other."""
    global _teller
    _teller = teller


def _numbers(name: str, text: str) -> _Lines:
    return tuple(int(number) for number in re.findall(rf"{name}:(\d+)", text))
