"""Forks Python processes from one that has loaded their modules already. Knows nothing of what they run.

A Python that loads NumPy and what a call needs takes 0.3 s of CPU before the call begins, a fork of one that
has loaded them some hundredths. The server is a process of its own: it has one thread, so that a fork is
sound whatever threads its user has, and it calls nothing of what it loads, so that no driver is open in it.
It ends with its user, however that ends. Linux alone has it; spawning.py asks it.
"""

import atexit
import contextlib
import errno
import fcntl
import gc
import json
import os
import select
import signal
import socket
import struct
import sys
import threading
from collections.abc import Collection
from importlib import import_module
from multiprocessing import resource_tracker, spawn, util

_EXIT_CODE = struct.Struct("<i")
_MOST_ASKED, _MOST_FILES = 1 << 16, 250
_TRIES = 2  # where the server was killed, another one is asked
# What Python and the loader read when they start: where it differs, another server is asked.
_READ_AT_START = ("LD_", "PYTHON", "LC_", "LANG", "OPENBLAS_", "OMP_", "MKL_")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # of its user, which ends it in another way

_servers: dict[tuple[int, str], socket.socket] = {}  # by who asks, and by what it would start with
_asking = threading.Lock()


def fork(text: int, kept: Collection[int], modules: Collection[str]) -> tuple[int, int]:
    """A new process that reads from the file `text` what one that multiprocessing spawns would read: its id,
    and a file in which exit_code() finds how it ended. It has this process's files `kept`, under the same
    numbers, and has loaded the modules, as far as they can be loaded. OSError where it cannot be started.
    """
    ended, tells = os.pipe()
    files = [tells, text, *_standard_files(), *kept]
    asked = json.dumps({"numbers": files[1:], "modules": [*modules], "tracker": resource_tracker.getfd()})
    try:
        with _asking:
            pid = int(_answer(asked.encode(), files))
        if pid < 0:
            raise OSError(-pid, os.strerror(-pid))
    except BaseException:
        os.close(ended)
        raise
    finally:
        os.close(tells)
    return pid, ended


def load(modules: Collection[str]) -> None:
    """Have the modules loaded, as far as they can be, before a process needs them. OSError as of fork()."""
    with _asking:
        _answer(json.dumps({"modules": [*modules]}).encode(), [])


def exit_code(ended: int) -> int:
    """How the process of this file ended, for which it waits: as multiprocessing writes it. With a server
    that was killed its processes are, too.
    """
    said = os.read(ended, _EXIT_CODE.size)
    return int(_EXIT_CODE.unpack(said)[0]) if len(said) == _EXIT_CODE.size else -signal.SIGKILL


def _standard_files() -> list[int]:
    """Input, output and errors, as far as they are open."""
    found = []
    for number in (0, 1, 2):
        with contextlib.suppress(OSError):
            os.fstat(number)
            found.append(number)
    return found


def _answer(asked: bytes, files: list[int]) -> bytes:
    start = {name: text for name, text in os.environ.items() if name.startswith(_READ_AT_START)}
    key = os.getpid(), repr(sorted(start.items()))
    for _ in range(_TRIES):
        if key not in _servers:
            _servers[key] = _start()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            socket.send_fds(_servers[key], [asked], files)
            if answer := _servers[key].recv(_MOST_ASKED):
                return answer
        _servers.pop(key).close()
    raise OSError(errno.EPIPE, "the process that forks them ended")


def _start() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        # Without a name in __main__, where what the caller's script defines is looked up.
        code = f"__import__('sys').path[:] = {sys.path!r}; __import__('evoflash.fork_server').fork_server"
        python = os.fsdecode(spawn.get_executable())
        flags = util._args_from_interpreter_flags()  # type: ignore[attr-defined]
        command = [python, *flags, "-c", f"{code}.serve({theirs.fileno()})"]
        server = util.spawnv_passfds(os.fsencode(python), command, [theirs.fileno()])
    atexit.register(_end, ours, server, os.getpid())
    return ours


def _end(asks: socket.socket, server: int, user: int) -> None:
    """When its user ends the server does, and what it took of the CPU is of its user's children."""
    if os.getpid() == user:
        with contextlib.suppress(OSError):  # it was killed
            asks.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(server, 0)


# ---- in the server


def serve(asks: int) -> None:
    """Fork a process for each that is asked for, and tell how they end; return in each of them once it has
    ended, with SystemExit, and in the server when nobody can ask any more.
    """
    user = socket.socket(fileno=asks)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _SIGNALS}
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes)
    silent = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):  # else who reads what its user writes would wait for the server's end
        os.dup2(silent, number)
    tells: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([user.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, _MOST_ASKED)
            _tell_ends(tells)
        if user.fileno() not in ready:
            continue
        text, files, _, _ = socket.recv_fds(user, _MOST_ASKED, _MOST_FILES)
        if not text:
            return
        asked = json.loads(text)
        _load(asked["modules"])
        if "numbers" not in asked:
            user.send(b"0")
            continue
        try:
            pid = os.fork()
        except OSError as error:
            pid = -(error.errno or errno.EAGAIN)
        if pid == 0:
            signal.set_wakeup_fd(-1)
            for number, handler in {**before, signal.SIGCHLD: signal.SIG_DFL}.items():
                signal.signal(number, handler)
            user.detach()
            above = 1 + max(silent, *asked["numbers"], *files, *tells.values())
            _become(asked["numbers"], files[1:], above=above, tracker=asked["tracker"])
        if pid > 0:
            tells[pid] = files.pop(0)
        for file in files:
            os.close(file)
        user.send(str(pid).encode())


def _load(modules: Collection[str]) -> None:
    wanted = [name for name in modules if name not in sys.modules]
    gc.disable()  # what is loaded stays: a tenth of the time goes into looking for garbage among it
    for name in wanted:
        with contextlib.suppress(Exception):  # the process will hear why
            import_module(name)
    if wanted:
        gc.collect()
        gc.freeze()  # else the next collection in each process copies all that is loaded
    gc.enable()


def _tell_ends(tells: dict[int, int]) -> None:
    while tells:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        file = tells.pop(pid)
        with contextlib.suppress(BrokenPipeError):
            os.write(file, _EXIT_CODE.pack(os.waitstatus_to_exitcode(status)))
        os.close(file)


def _become(numbers: list[int], files: list[int], *, above: int, tracker: int) -> None:
    """Be the process that was asked for, with these files under these numbers, and of those below `above` no
    others.
    """
    moved = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, above) for file in files]
    os.closerange(0, above)
    for file, number in zip(moved, numbers, strict=True):
        os.dup2(file, number, inheritable=number <= 2)
        os.close(file)
    resource_tracker._resource_tracker._fd = tracker  # type: ignore[attr-defined]
    sys.exit(spawn._main(numbers[0], os.dup(numbers[0])))
