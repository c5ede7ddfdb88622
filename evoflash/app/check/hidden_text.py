"""Finds what of a kernel's text the emulator does not see. Compiles nothing.

Host code under `#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)` is no part of the kernel and is left
out; of the rest it is what the lint refuses.
"""

import re

from evoflash.kernels.lint import COMPILERS, LIBRARY, WRITABLE, Refusal, lint

_CONDITION = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b(.*)$")
_SEEN = re.compile(r"__atomic_\w+|__ATOMIC_[A-Z_]+|__builtin_mem(cpy|set|move)")
_HOST = re.compile(r"defined\W*__CUDACC__\W*&&\s*!\s*defined\W*__CUDACC_RTC__\W*$")


def unseen_lines(text: str) -> tuple[Refusal, ...]:
    """What a kernel's text uses that the emulator cannot see, by line. The compiler's atomics and copies, and
    writes through a cast, are seen: `check` sees every load and store that g++ leaves.
    """
    kernel = without_host_code(text)
    lines = kernel.split("\n")
    return tuple(each for each in lint(kernel) if not _is_seen(each, lines[each.line - 1]))


def _is_seen(refused: Refusal, line: str) -> bool:
    if refused.what == LIBRARY:
        return re.search(r"\bmem(cpy|set|move)\b", line) is not None
    names = set(re.findall(r"\b__\w+|\b_[A-Z]\w*", line))
    is_builtin = bool(names) and all(_SEEN.fullmatch(name) for name in names)
    return refused.what == WRITABLE or (refused.what == COMPILERS and is_builtin)


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


def plain_cuda(text: str) -> str:
    """What stands in a text that is written for CUDA alone, by line, and what to write instead; or ""."""
    said: dict[str, list[int]] = {}
    for each in unseen_lines(text):
        said.setdefault(f"{each.instead[:1].upper()}{each.instead[1:]}", []).append(each.line)
    return " ".join(f"Line {', '.join(map(str, at))}: {words}." for words, at in said.items())
