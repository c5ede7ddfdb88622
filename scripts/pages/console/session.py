"""Commands run as a reader of a page would, in an empty home folder, and what of their output is compared."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from scripts import ROOT
from scripts.pages.console.blocks import PROMPT

COLUMNS = 100
_LIMIT_S = 1800.0
_OURS = re.compile(r"EVOFLASH_|XDG_")  # settings of whoever runs this do not reach the pages
_PROGRESS = re.compile(r"^evoflash: \d+(/\d+)?(?: at |; best )")
_WAITING = re.compile(r"^evoflash: .* \.\.\.$")  # said where a step takes more than a second
# What may differ between two runs of the same command, and counts as equal.
_VOLATILE = (
    (re.compile(r"\bat \d+(\.\d+)?/s(, [\d:]+ left)?"), "at N/s"),  # how fast this machine was
    (re.compile(r"\b\d+(\.\d+)? s\b"), "N s"),
    (re.compile(r"\b\d{4}-\d\d-\d\d([T ][\d:.]+\S*)?"), "DATE"),
    (re.compile(r"\b\d\d?:\d\d(:\d\d)?\b"), "CLOCK"),
)


def comparable(text: str) -> str:
    """The text without rates, seconds, dates and times of day."""
    for pattern, word in _VOLATILE:
        text = pattern.sub(word, text)
    return text


class Session:
    """A reader's shell, in a home folder of its own, with this checkout's `evoflash` and docs/."""

    def __init__(self, home: Path, cache: Path) -> None:
        self._home = home
        shim = f'#!/bin/sh\nexport PYTHONPATH={ROOT}\nexec {sys.executable} -m evoflash "$@"\n'
        for place in (home / "bin" / "evoflash", home / "scripts" / "evoflash"):
            place.parent.mkdir(parents=True)
            place.write_text(shim, encoding="utf-8")
            place.chmod(0o755)
        for name in ("docs", "evoflash"):  # what commands name in a checkout
            (home / name).symlink_to(ROOT / name)
        kept = {name: value for name, value in os.environ.items() if not _OURS.match(name)}
        self._environment = kept | {
            "HOME": str(home),
            "PATH": f"{home / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "EVOFLASH_CACHE_DIR": str(cache),
            "COLUMNS": str(COLUMNS),
            "NO_COLOR": "1",
            "TERM": "dumb",
            "LC_ALL": "C.UTF-8",
            "PYTHONUNBUFFERED": "1",
        }

    def transcript(self, commands: Sequence[str]) -> str:
        """What a terminal shows: each command behind its prompt, then what it printed."""
        return "".join(f"{PROMPT}{command}\n{self._output(command)}" for command in commands)

    def _output(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self._home,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            encoding="utf-8",
            timeout=_LIMIT_S,
            check=False,
        )
        said = done.stdout.replace(str(self._home), "~").splitlines()
        lines = [line for line in _last_progress(said) if not _WAITING.match(line)]
        if done.returncode:
            lines.append(f"[exit code {done.returncode}]")
        return "".join(f"{line.rstrip()}\n" for line in lines)


def _last_progress(lines: list[str]) -> list[str]:
    """Of the lines that say how far a search is, the last one: how many there are is a matter of speed."""
    progress = [at for at, line in enumerate(lines) if _PROGRESS.match(line)]
    return [line for at, line in enumerate(lines) if at not in progress[:-1]]
