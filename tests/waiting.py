"""Waits until something has happened, however slow or busy the machine is; never for a number of seconds."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")
LIMIT_S = 600.0  # what takes as long as this will not happen any more; an idle machine takes a second
_LOOK_EVERY_S = 0.02
_LOOKS = 10


def until(happened: Callable[[], T], *, what: str) -> T:
    """The first true answer; the test fails with `what` where none comes."""
    end_s = time.monotonic() + LIMIT_S
    while not (answer := happened()):
        if time.monotonic() > end_s:
            pytest.fail(f"{what}: not within {LIMIT_S:g} s")
        time.sleep(_LOOK_EVERY_S)
    return answer


def is_alive(process: int) -> bool:
    """It is not gone, and no zombie that nobody has waited for."""
    try:
        return _stat(process)[0] != "Z"
    except OSError:
        return False


def is_waiting(process: int) -> bool:
    """It slept in ten looks in a row and computed nothing meanwhile, so that it waits for someone else."""
    looks = []
    for _ in range(_LOOKS):
        looks.append(_stat(process))
        time.sleep(_LOOK_EVERY_S)
    ticks = [int(fields[11]) + int(fields[12]) for fields in looks]
    return all(fields[0] == "S" for fields in looks) and ticks[-1] - ticks[0] <= 1


def processes_below(process: int) -> list[int]:
    """All that descend from it."""
    parents = {}
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(each.name)] = int(_stat(int(each.name))[1])
    found, look = [], [process]
    while look:
        parent = look.pop()
        children = [child for child, its in parents.items() if its == parent]
        found += children
        look += children
    return found


def workers_of(process: int) -> list[int]:
    """Those below it that were started to work: no tracker of resources, no server that forks them."""
    found = []
    for each in processes_below(process):
        with contextlib.suppress(OSError):
            is_fork = "fork_server" in Path(f"/proc/{each}/cmdline").read_text()
            if is_fork and int(_stat(each)[1]) != process:
                found.append(each)
    return found


def has_open(process: int, path: Path) -> bool:
    """One of its open files is `path`."""
    try:
        return any(link.resolve() == path.resolve() for link in Path(f"/proc/{process}/fd").iterdir())
    except OSError:  # the process, or one of its files, went away while it was looked at
        return False


def _stat(process: int) -> list[str]:
    """The fields of /proc/<process>/stat from the state on; its name, before them, may hold anything."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
