"""Finds what of a kernel's text the emulator does not see. Compiles nothing.

Host code under `#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)` is no part of the kernel and is left
out; of the rest it is what the lint refuses.
"""

import re

from evoflash.kernels.lint import Refusal, lint

_CONDITION = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b(.*)$")
_HOST = re.compile(r"defined\W*__CUDACC__\W*&&\s*!\s*defined\W*__CUDACC_RTC__\W*$")


def unseen_lines(text: str) -> tuple[Refusal, ...]:
    """What a kernel's text uses that the emulator cannot see, by line: `check` sees every load and store that
    g++ leaves.
    """
    return lint(without_host_code(text), sees_accesses=True)


def without_host_code(text: str) -> str:
    """The text with empty lines in place of host code."""
    lines, depth, host = [], 0, 0  # host: the depth at which host code began
    for line in text.split("\n"):
        found = _CONDITION.match(line)
        word = found[1] if found else ""
        if word.startswith("if"):
            depth += 1
            if not host and found and word == "if" and _HOST.search(found[2].strip()):
                host = depth
        ends = word == "endif" or (word in ("else", "elif") and depth == host)
        lines.append("" if host else line)
        if ends and host == depth:
            host = 0
        depth -= word == "endif"
    return "\n".join(lines)
