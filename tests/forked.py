"""An evoflash command in a process of its own, without the half second of imports. Compares nothing.

One process of each test run loads evoflash and forks for each command: what the command does, its exit code
and what it writes are those of `python -m evoflash`, but for variables that Python reads when it starts
(PYTHONPATH, PYTHONHASHSEED, LD_PRELOAD). A test of start-up, signals or those runs a Python of its own.
The process from which a command forks others (evoflash/fork_server.py) is forked in the same way, where the
command would start a Python that loads NumPy and evoflash once more.
"""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from loaded import load_commands
from places import ROOT, environment
from waiting import LIMIT_S


def evoflash(*words: str, cwd: Path = ROOT, **variables: str) -> "subprocess.CompletedProcess[str]":
    """The command with this process's variables and `variables`, as subprocess.run would end it."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = (Path(folder) / name for name in ("out", "err"))
        asked = (words, str(cwd), environment(NO_COLOR="1", **variables), str(out), str(err))
        server = _server()
        assert server.stdin is not None
        assert server.stdout is not None
        print(json.dumps(asked), file=server.stdin, flush=True)
        code = int(server.stdout.readline())
        return subprocess.CompletedProcess(words, code, out.read_text(), err.read_text())


@cache
def _server() -> "subprocess.Popen[str]":
    command = [sys.executable, __file__]
    server = subprocess.Popen(
        command, env=environment(NO_COLOR="1"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(server.__exit__, None, None, None)  # closes its input, at which it ends, and waits
    return server


def _forked() -> Iterator[int]:
    """-1 in the process of a command, once what it is to see is in place; in the server its exit code."""
    for line in sys.stdin:
        words, cwd, variables, out, err = json.loads(line)
        child = os.fork()
        if child:
            yield os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            continue
        signal.alarm(int(LIMIT_S))
        for number, (path, flags) in enumerate(
            [(os.devnull, os.O_RDONLY), (out, os.O_WRONLY | os.O_CREAT), (err, os.O_WRONLY | os.O_CREAT)]
        ):
            os.dup2(os.open(path, flags), number)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(variables)
        sys.argv = ["evoflash", *words]
        yield -1


def _serve() -> bool:
    """Answers until there are no more commands; True in the process of a command."""
    for code in _forked():
        if code == -1:
            return True
        print(code, flush=True)
    return False


def _fork_servers(asked: socket.socket) -> None:
    """Forks a fork server for each socket that arrives, until no command can send one any more. What their
    processes would load is loaded here.
    """
    fork_server._load(machines._LOADED_FIRST)
    while True:
        text, sockets, _, _ = socket.recv_fds(asked, 1 << 16, 1)
        if not text:
            break
        if os.fork() == 0:
            asked.close()
            os.environ.clear()
            os.environ.update(json.loads(text))
            fork_server.serve(*sockets)
            os._exit(0)
        os.close(*sockets)
    with suppress(ChildProcessError):
        while True:
            os.wait()
    os._exit(0)


def _run(servers: socket.socket) -> None:
    """The command to its end, as the interpreter would end it, but that nothing is freed: that takes as long
    as to load it.
    """
    from evoflash.cli.program import main

    def start() -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(servers, [json.dumps(dict(os.environ)).encode()], [theirs.fileno()])
        return ours

    fork_server._start = start
    code: object = 1
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    from evoflash import fork_server
    from evoflash.app.search import machines

    load_commands()
    asks, asked = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    forks_servers = os.fork()
    if forks_servers == 0:
        asks.close()
        _fork_servers(asked)
    asked.close()
    if _serve():
        _run(asks)
    asks.close()
    os.waitpid(forks_servers, 0)
