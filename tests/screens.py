"""Screens as a person sees them: commands run on a pseudo-terminal, and what a terminal emulator makes of it.

One process loads evoflash once and forks for each screen that is asked for. Compares nothing.
"""

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyte
from loaded import load_commands
from places import ROOT, environment

_ROWS = 200


@contextmanager
def screens(**variables: str) -> Iterator[Callable[[int, Sequence[str]], str]]:
    """A function that says what stands on a terminal of a width after a command has ended, without blanks at
    line ends. A command's first word is one of evoflash, or the name of a function of this module.
    """
    outside = {
        k: v for k, v in environment().items() if k not in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
    }
    with subprocess.Popen(
        [sys.executable, "-m", "tests.screens"],
        env=outside | {"TERM": "xterm-256color"} | variables,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:  # at whose end its input is closed, at which it ends
        asks, answers = server.stdin, server.stdout
        assert asks is not None
        assert answers is not None

        def take(width: int, words: Sequence[str]) -> str:
            print(json.dumps((width, words)), file=asks, flush=True)
            return _shown(json.loads(answers.readline()), width)

        yield take


def _shown(text: str, width: int) -> str:
    screen = pyte.Screen(width, _ROWS)
    pyte.Stream(screen).feed(text)
    return "\n".join(line.rstrip() for line in screen.display).rstrip() + "\n"


def progress() -> None:
    """A search's progress in the middle of it, drawn three times over."""
    from evoflash.app.search.limits import Limits
    from evoflash.evaluation import Basis, Evaluation, Proposal, Rung, Status
    from evoflash.space import Genome
    from evoflash.views.progress import Progress

    with Progress("flash_mma for l4", Basis.ESTIMATED, Limits(budget=200), ()) as shown:
        for number in range(120):
            genome = Genome("flash_mma", 1, (("block_m", number),))
            is_right = number % 4 > 0 or number == 0
            evaluation = Evaluation(
                genome,
                "mission",
                "l4",
                Basis.ESTIMATED,
                Status.CORRECT if is_right else Status.COMPILE,
                Rung.DONE if is_right else Rung.COMPILE,
                score_us=112.68 - number / 2 if is_right else None,
            )
            shown.show(Proposal(genome, operator="seed" if number == 0 else "x"), evaluation)
            if number % 40 == 0:
                shown._bar.refresh()


def _on_terminal(width: int, words: Sequence[str]) -> str:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, width, 0, 0))
    child = os.fork()
    if child == 0:
        os.close(ours)
        os.login_tty(theirs)
        _run(words)
    os.close(theirs)
    parts = []
    while part := _read(ours):
        parts.append(part)
    os.waitpid(child, 0)
    os.close(ours)
    return b"".join(parts).decode()


def _run(words: Sequence[str]) -> None:
    from evoflash.cli.program import main

    try:
        if words[0] in globals():
            globals()[words[0]]()
        else:
            sys.argv = ["evoflash", *words]
            sys.modules["__main__"].__package__ = ""  # else usage lines name this module
            main()
    except SystemExit:
        pass
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # Linux says so when the child has closed its end
        return b""


if __name__ == "__main__":
    load_commands()  # here once, instead of in each of the processes that are forked
    for shot in sys.stdin:
        print(json.dumps(_on_terminal(*json.loads(shot))), flush=True)
