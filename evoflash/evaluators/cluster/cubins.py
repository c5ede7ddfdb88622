"""Sends machine code along with the records that name its files, for another machine has not got those files.

A file's path has the key of its cache in it, so a path that exists already holds the same bytes.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from evoflash.errors import DeviceError
from evoflash.evaluators.prepare import Preparation
from evoflash.gpu.process.finals import FinalTask
from evoflash.gpu.process.rungs import GpuTask
from evoflash.isolation import Ending
from evoflash.paths import cache_advice, cache_dir

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Parcel(Generic[T]):
    """A record, and the contents of the files that it names by their paths."""

    record: T
    files: Mapping[str, bytes]


def pack_preparation(ending: Ending[Preparation]) -> Parcel[Ending[Preparation]]:
    """What a worker process made of a genome, with its cubins."""
    builds = ending.value.builds if ending.value else ()
    return Parcel(ending, _read(build.cubin_path for build in builds))


def unpack_preparation(parcel: Parcel[Ending[Preparation]]) -> Ending[Preparation]:
    """The same on this machine, with files of this machine."""
    prepared, here = parcel.record.value, _place_files(parcel.files)
    if prepared is None:
        return parcel.record
    builds = tuple(replace(each, cubin_path=here.get(each.cubin_path, "")) for each in prepared.builds)
    return replace(parcel.record, value=replace(prepared, builds=builds))


def pack_task(task: GpuTask, *, is_here: bool = False) -> Parcel[GpuTask]:
    """A task with its cubins, and those of the kernel that it is timed beside; `is_here`: for a process of
    this machine, which reads the files themselves.
    """
    return Parcel(task, {} if is_here else _read(_paths(task)))


def unpack_task(parcel: Parcel[GpuTask]) -> GpuTask:
    """The same task on this machine."""
    return _with_local_paths(parcel.record, _place_files(parcel.files))


def pack_finals(task: FinalTask, *, is_here: bool = False) -> Parcel[FinalTask]:
    """The finalists with their cubins, as of a task."""
    paths = () if is_here else (path for each in task.tasks for path in _paths(each))
    return Parcel(task, _read(paths))


def unpack_finals(parcel: Parcel[FinalTask]) -> FinalTask:
    """The same finalists on this machine."""
    here = _place_files(parcel.files)
    return replace(parcel.record, tasks=tuple(_with_local_paths(each, here) for each in parcel.record.tasks))


def _paths(task: GpuTask) -> tuple[str, ...]:
    beside = _paths(task.anchor.task) if task.anchor else ()
    return (*(path for _, path in task.cubins), *beside)


def _with_local_paths(task: GpuTask, here: Mapping[str, str]) -> GpuTask:
    anchor = task.anchor and replace(task.anchor, task=_with_local_paths(task.anchor.task, here))
    return replace(
        task, cubins=tuple((key, here.get(path, path)) for key, path in task.cubins), anchor=anchor
    )


def _read(paths: Iterable[str]) -> dict[str, bytes]:
    return {path: Path(path).read_bytes() for path in paths if path}


def _place_files(files: Mapping[str, bytes]) -> dict[str, str]:
    """Where each file is on this machine."""
    try:
        return {
            path: path if Path(path).is_file() else str(_keep_cubin(cubin)) for path, cubin in files.items()
        }
    except OSError as error:
        raise DeviceError(cache_advice(error)) from None


def _keep_cubin(cubin: bytes) -> Path:
    name = hashlib.sha256(cubin).hexdigest()
    path = cache_dir() / "received" / name[:2] / f"{name}.cubin"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, beside = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        with os.fdopen(handle, "wb") as file:
            file.write(cubin)
        os.rename(beside, path)  # a half-written file cannot be taken for a kernel
    return path
