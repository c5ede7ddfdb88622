"""Test inputs with their right answers, each computed once. Runs and judges nothing.

Processes that are given one folder also share them as files: one that takes the place of another that crashed
then computes nothing again.

Values that several processes want, each made by whoever wants it first, in files that the others map; of
large ones the files lie in memory.
"""

import contextlib
import fcntl
import hashlib
import mmap
import os
import pickle
import struct
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from evoflash.numerics import stream_of
from evoflash.operation import operation_of
from evoflash.operations.expectations import every_row
from evoflash.workload import ExpectedOutputs, TestInput, Workload

T = TypeVar("T")

_HEAD = struct.Struct("<QQ")  # bytes of the index, bytes of the whole file; both 0 until all is written
_ALIGNMENT = 64  # bytes, of each array


def get_or_publish(place: Path, make: Callable[[], T]) -> T:
    """The value that is kept at `place`, or what `make` makes, which is then kept there. Of several that come
    at the same time one makes it, and the others wait. Arrays of a kept value cannot be written to.

    Where the folder is gone or full the value is made and not kept.
    """
    try:
        file = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return make()
    try:
        fcntl.flock(file, fcntl.LOCK_EX)  # whoever dies lets go of it
        if not _is_whole(file):
            made = make()
            if not _keep(file, made):
                return made
        found: T = _load(file)
        return found
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)  # a mapping keeps the file open
        os.close(file)


def _is_whole(file: int) -> bool:
    head = os.pread(file, _HEAD.size, 0)
    return len(head) == _HEAD.size and _HEAD.unpack(head)[1] > 0


def _keep(file: int, value: object) -> bool:
    """Write the value, its head last; False where there is no room."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    raws = [buffer.raw() for buffer in buffers]
    sizes = [raw.nbytes for raw in raws]
    index = pickle.dumps((body, sizes))
    try:
        os.ftruncate(file, 0)
        _write(file, index, _HEAD.size)
        places, end = _places(len(index), sizes)
        for raw, at in zip(raws, places, strict=True):
            _write(file, raw, at)
        os.ftruncate(file, end)
        _write(file, _HEAD.pack(len(index), end), 0)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(file, 0)
        return False
    return True


def _places(index_bytes: int, sizes: list[int]) -> tuple[list[int], int]:
    """Where each array begins, and where the file ends."""
    places, at = [], _HEAD.size + index_bytes
    for size in sizes:
        at = -(-at // _ALIGNMENT) * _ALIGNMENT
        places.append(at)
        at += size
    return places, at


def _write(file: int, what: "bytes | memoryview[Any]", at: int) -> None:
    left = memoryview(what)
    while left:
        written = os.pwrite(file, left, at)
        left, at = left[written:], at + written


def _load(file: int) -> Any:
    index_bytes, end = _HEAD.unpack(os.pread(file, _HEAD.size, 0))
    body, sizes = pickle.loads(os.pread(file, index_bytes, _HEAD.size))
    view = memoryview(mmap.mmap(file, end, access=mmap.ACCESS_READ))
    places, _ = _places(index_bytes, sizes)
    return pickle.loads(body, buffers=[view[at : at + size] for at, size in zip(places, sizes, strict=True)])


_FOLDER = "EVOFLASH_SHARED_CASES"  # the variable in which a process notes its folder; set by share_in() alone


def draw_case(workload: Workload, name: str, seed: int) -> tuple[TestInput, ExpectedOutputs]:
    """A test input of a small workload, and what is right at every row. Nobody may write to either."""
    operation = operation_of(workload)
    inputs: TestInput = operation.draw(name, workload, seed=seed)
    return inputs, operation.expect(workload, inputs, where=every_row(workload))


def share_in(folder: str) -> None:
    """From here on this process keeps its cases in that folder as well, and finds those of others there."""
    os.environ[_FOLDER] = folder


@lru_cache(maxsize=512)
def case(workload: Workload, name: str, seed: int) -> tuple[TestInput, ExpectedOutputs]:
    """draw_case(), remembered: all candidates meet the same check shapes."""
    return get_or_make((workload, name, seed), lambda: draw_case(workload, name, seed))


def keep_case(folder: str, workload: Workload, name: str, seed: int) -> None:
    """Have case() find it, in whatever process shares that folder."""
    get_or_publish(place_of(folder, (workload, name, seed)), lambda: draw_case(workload, name, seed))


def get_or_make(key: object, make: Callable[[], T]) -> T:
    """What `make` makes, or what another process that shares this one's folder made under that key."""
    folder = os.environ.get(_FOLDER)
    return make() if folder is None else get_or_publish(place_of(folder, key), make)


def place_of(folder: str, key: object) -> Path:
    """The file of that folder in which a value is kept; keys are told apart by their repr()."""
    return Path(folder) / hashlib.sha256(repr(key).encode()).hexdigest()


def names_of_large(workload: Workload) -> tuple[str, ...]:
    """The test inputs of a workload that is timed."""
    names = operation_of(workload).inputs
    return *names.at_size, names.after_timing


# A large test input is up to a gigabyte of host memory: few are kept.
@lru_cache(maxsize=18)
def large_case(workload: Workload, name: str, seed: int) -> tuple[TestInput, ExpectedOutputs]:
    """A timed workload's test input, and what is right at a sample of rows."""
    return get_or_make(key_of_large(workload, name, seed), lambda: _draw_large(workload, name, seed))


def key_of_large(workload: Workload, name: str, seed: int) -> object:
    """Under which large_case() shares it with other processes."""
    return "large", workload, name, seed


def _draw_large(workload: Workload, name: str, seed: int) -> tuple[TestInput, ExpectedOutputs]:
    operation = operation_of(workload)
    drawn: TestInput = operation.draw(name, workload, seed=seed)
    where = operation.sample(workload, stream_of(seed, name))
    return drawn, operation.expect(workload, drawn, where=where)


class SharedCases:
    """The folder in which the processes of one search share cases, as long as this lives.

    What is up to gigabytes lies in memory files, which end with this process however it ends; the folder has
    links to them.
    """

    def __init__(self, timed: tuple[Workload, ...], seed: int) -> None:
        """`timed` are the workloads of which inputs are large."""
        self._folder = tempfile.TemporaryDirectory(prefix="evoflash-cases-", ignore_cleanup_errors=True)
        self._files: list[int] = []
        for workload in timed:
            for name in names_of_large(workload):
                self._hold(place_of(self.path, key_of_large(workload, name, seed)))

    @property
    def path(self) -> str:
        """The folder, for share_in()."""
        return self._folder.name

    def _hold(self, place: Path) -> None:
        if place.is_symlink():  # the same workload twice
            return
        self._files.append(os.memfd_create("evoflash-case"))
        place.symlink_to(f"/proc/{os.getpid()}/fd/{self._files[-1]}")

    def close(self) -> None:
        """Let go of everything; processes that have mapped some of it keep that until they end."""
        while self._files:
            os.close(self._files.pop())
        self._folder.cleanup()
