"""Lets processes share a GPU, so that while one times a kernel, none of the others launches any.

A lock on a file says so. Launches that are not timed may run beside those of other processes. A process that
was given no file has the GPU to itself and waits for nobody. Where an exception ends a launch or a timing its
kernel may still run: the lock is kept until let_go() is called, or the process dies. Knows nothing of GPUs.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class _Share:
    """This process's handle of the file; `held` while one of its launches or timings is under way."""

    handle: int = -1
    held: bool = False


_share = _Share()


def share_gpu_by(path: str) -> None:
    """From here on this process shares the GPU with all that name the same file; once for a process."""
    if _share.handle >= 0:
        return
    _share.handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


@contextmanager
def alone() -> Iterator[None]:
    """Nothing of the other processes runs meanwhile. Not inside of `beside_others`."""
    with _hold(fcntl.LOCK_EX):
        yield


@contextmanager
def beside_others() -> Iterator[None]:
    """Launches of other processes may run meanwhile, and nothing is timed."""
    with _hold(fcntl.LOCK_SH):
        yield


@contextmanager
def _hold(how: int) -> Iterator[None]:
    if _share.handle < 0 or _share.held:  # what runs alone may launch
        yield
        return
    fcntl.flock(_share.handle, how)
    _share.held = True
    yield
    let_go()


def let_go() -> None:
    """Others may go on: nothing of this process is on the GPU."""
    if _share.held:
        _share.held = False
        fcntl.flock(_share.handle, fcntl.LOCK_UN)
