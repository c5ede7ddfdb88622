"""Starts Python processes that need neither the caller's script nor /dev/shm. Keeps none and sends no work.

multiprocessing's own way has each new process run the caller's script again, which ends in tracebacks where
that has no `if __name__ == "__main__"`, and its locks are files in /dev/shm, which a sandbox may lack or
forbid. Here the script is run again only where something is asked for that is defined in it, and a lock is
one of a file without a name, which the system frees when the process that holds it ends.
"""

import fcntl
import io
import os
import sys
import tempfile
from multiprocessing import process, reduction, spawn, util
from multiprocessing.context import SpawnContext, SpawnProcess, set_spawning_popen
from multiprocessing.popen_spawn_posix import Popen
from multiprocessing.resource_tracker import getfd
from typing import Any

_SCRIPT = ("init_main_from_path", "init_main_from_name")  # what a new process is told of the caller's script


class ProcessLock:
    """A lock for processes, one thread in each, which may hold it several times; what dies gives it back.

    Offers what multiprocessing's RLock does. No limit of time is kept: nobody can die and hold it.
    """

    def __init__(self) -> None:
        if hasattr(os, "memfd_create"):
            self._file = os.fdopen(os.memfd_create("evoflash-lock"), "w")
        else:
            self._file = tempfile.TemporaryFile("w")  # noqa: SIM115
        self._times = 0

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Whether it is held now."""
        if not self._times:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | (0 if block else fcntl.LOCK_NB))
            except (BlockingIOError, PermissionError):
                return False
        self._times += 1
        return True

    def release(self) -> None:
        """Give it back once more; the last time frees it."""
        self._times -= 1
        if not self._times:
            fcntl.lockf(self._file, fcntl.LOCK_UN)

    def __getstate__(self) -> Any:
        return reduction.DupFd(self._file.fileno())  # while a process is started, which then has the file too

    def __setstate__(self, file: Any) -> None:
        self._file, self._times = os.fdopen(file.detach(), "w"), 0


class _Start(Popen):
    """As its base starts a process, which is not told of the caller's script until it asks for it."""

    _fds: list[int | None]  # its base's: what the process is given

    def _launch(self, started: "_Process") -> None:
        tracker = getfd()
        self._fds.append(tracker)
        told, text = spawn.get_preparation_data(started.name), io.BytesIO()
        started.script = _Script({name: told.pop(name) for name in _SCRIPT if name in told})
        set_spawning_popen(self)
        try:
            reduction.dump(told, text)
            reduction.dump(started, text)
        finally:
            set_spawning_popen(None)
        begun, begins = os.pipe()
        reads, writes = os.pipe()
        try:
            command = spawn.get_command_line(tracker_fd=tracker, pipe_handle=reads)
            self.pid = util.spawnv_passfds(
                os.fsencode(spawn.get_executable()),
                command,
                [*self._fds, reads, begins],  # type: ignore[list-item]
            )
            self.sentinel = begun
            with open(writes, "wb", closefd=False) as pipe:
                pipe.write(text.getbuffer())
        finally:
            self.finalizer = util.Finalize(self, _close, (begun, writes))
            os.close(reads)
            os.close(begins)


def _close(*files: int) -> None:
    for file in files:
        os.close(file)


class _Process(SpawnProcess):
    script: "_Script"

    @staticmethod
    def _Popen(started: Any) -> Popen:  # noqa: N802 (multiprocessing's name)
        return _Start(started)

    def __getstate__(self) -> dict[str, Any]:
        """The script first: what follows may be defined in it."""
        return {"script": self.script, **self.__dict__}


class _Script:
    """What a new process knows of the caller's script, which is offered as soon as this arrives there."""

    def __init__(self, told: dict[str, str]) -> None:
        self._told = told

    def __reduce__(self) -> Any:
        return _offer, (self._told,)


def _offer(told: dict[str, str]) -> _Script:
    """Have Python run the script when a name is looked up in `__main__` that this process has not."""

    def look_up(name: str) -> Any:
        if name.startswith("__") or "__getattr__" not in vars(main):
            raise AttributeError(name)
        del main.__getattr__
        _run_script(told)
        return getattr(sys.modules["__main__"], name)

    main: Any = sys.modules["__main__"]
    if told:
        main.__getattr__ = look_up
    return _Script(told)


def _run_script(told: dict[str, str]) -> None:
    """As multiprocessing does it: under the name `__mp_main__`, and no process may be started by it."""
    me = vars(process.current_process())
    before = me.copy()
    me["_inheriting"] = True
    try:
        spawn.prepare(told)
    finally:
        me.clear()
        me.update(before)


class Spawning(SpawnContext):
    """What multiprocessing.get_context("spawn") is, with such processes and locks."""

    Process = _Process

    def RLock(self) -> Any:  # noqa: N802 (multiprocessing's name)
        return ProcessLock()


def spawning() -> Spawning:
    """The context to start processes by."""
    return Spawning()
