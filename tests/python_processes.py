"""Starts Python in processes of their own, as a person's shell would; waiting.py waits for what they do."""

import signal
import subprocess
import sys
from typing import Any

from places import ROOT, environment


def hear_ctrl_c() -> None:
    """A shell's background jobs ignore Ctrl-C, and so would everything that tests start there."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def python(*words: object, **options: Any) -> "subprocess.Popen[str]":
    """`python WORDS` in the checkout, with pipes for stdout and stderr; options as of Popen."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    usual = {"cwd": ROOT, "env": environment(), "preexec_fn": hear_ctrl_c, **pipes}
    return subprocess.Popen([sys.executable, *map(str, words)], **usual | options)


def evoflash(*words: object, **options: Any) -> "subprocess.Popen[str]":
    """`evoflash WORDS`, likewise."""
    return python("-m", "evoflash", *words, **options)
