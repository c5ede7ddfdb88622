"""Starts Python processes that need neither the caller's script nor /dev/shm. Keeps none and sends no work.

multiprocessing's own way has each new process run the caller's script again, which ends in tracebacks where
that has no `if __name__ == "__main__"`, and its locks are files in /dev/shm, which a sandbox may lack or
forbid. Here the script is run again only where something is asked for that is defined in it, and a lock is
one of a file without a name, which the system frees when the process that holds it ends. On Linux a process
is forked from one that has loaded its modules (fork_server.py), elsewhere Python starts anew.
"""

import contextlib
import fcntl
import io
import os
import sys
import tempfile
from collections.abc import Collection
from multiprocessing import process, reduction, spawn, util
from multiprocessing.connection import wait
from multiprocessing.context import SpawnContext, SpawnProcess, set_spawning_popen
from multiprocessing.popen_spawn_posix import Popen
from multiprocessing.resource_tracker import getfd
from typing import Any

from evoflash import fork_server

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
    """As its base starts a process, which is not told of the caller's script until it asks for it. On Linux
    it is forked from one that has loaded already what load_first() names.
    """

    _fds: list[int | None]  # its base's: what the process is given

    def _launch(self, started: "_Process") -> None:
        self._fds.append(getfd())
        load_first(getattr(started._target, "__module__", ""))
        told, text = spawn.get_preparation_data(started.name), io.BytesIO()
        started.caller = _Caller({name: told.pop(name) for name in _SCRIPT if name in told}, dict(os.environ))
        set_spawning_popen(self)
        try:
            reduction.dump(told, text)
            reduction.dump(started, text)
        finally:
            set_spawning_popen(None)
        reads, writes = os.pipe()
        try:
            start = fork_server.fork if _HAS_FORK_SERVER else _start_anew
            self.pid, self.sentinel = start(reads, [*filter(None, self._fds)], _loaded_first)
        except BaseException:
            os.close(writes)
            raise
        finally:
            os.close(reads)
        self.finalizer = util.Finalize(self, _close, (self.sentinel, writes))
        with open(writes, "wb", closefd=False) as pipe:
            pipe.write(text.getbuffer())

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        """The exit code, once there is one: the server that forked the process hears it, and tells it."""
        if not _HAS_FORK_SERVER:
            return super().poll(flag)
        if self.returncode is None and wait([self.sentinel], 0 if flag == os.WNOHANG else None):
            self.returncode = fork_server.exit_code(self.sentinel)
        return self.returncode


def _start_anew(text: int, kept: Collection[int], _: Collection[str]) -> tuple[int, int]:
    """As fork_server.fork(), by a Python that loads all itself; the file is at its end when that ended."""
    begun, begins = os.pipe()
    program = os.fsencode(spawn.get_executable())
    try:
        command = spawn.get_command_line(tracker_fd=getfd(), pipe_handle=text)
        return util.spawnv_passfds(program, command, [*kept, text, begins]), begun
    finally:
        os.close(begins)


_HAS_FORK_SERVER = sys.platform == "linux"
_loaded_first = {"evoflash.isolation"}  # which loads NumPy, and what sends the calls


def load_first(module: str) -> None:
    """Processes that are started from now on may have loaded this module of evoflash before they begin."""
    if module.startswith("evoflash."):
        _loaded_first.add(module)


def load_now(modules: Collection[str]) -> None:
    """As load_first(), of any modules; on Linux they are loaded when this returns, whatever it took."""
    _loaded_first.update(modules)
    if _HAS_FORK_SERVER:
        with contextlib.suppress(OSError):  # who starts a process hears it
            fork_server.load(_loaded_first)


def _close(*files: int) -> None:
    for file in files:
        os.close(file)


class _Process(SpawnProcess):
    caller: "_Caller"
    _target: Any  # its base's: what it calls

    @staticmethod
    def _Popen(started: Any) -> Popen:  # noqa: N802 (multiprocessing's name)
        return _Start(started)

    def __getstate__(self) -> dict[str, Any]:
        """The caller first: what follows may be defined in its script, and goes by its variables."""
        return {"caller": self.caller, **self.__dict__}


class _Caller:
    """What a new process has of its caller as soon as this arrives there: its variables, and its script where
    that is asked for.
    """

    def __init__(self, script: dict[str, str], variables: dict[str, str]) -> None:
        self._script, self._variables = script, variables

    def __reduce__(self) -> Any:
        return _follow, (self._script, self._variables)


def _follow(script: dict[str, str], variables: dict[str, str]) -> _Caller:
    os.environ.clear()
    os.environ.update(variables)
    _offer(script)
    return _Caller(script, variables)


def _offer(told: dict[str, str]) -> None:
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
