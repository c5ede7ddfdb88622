"""Finds what of a kernel's text the emulator does not see: host code, and code for a GPU's compiler alone.

Host code under `#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)` is no part of the kernel and is left
out. Other conditions by which a GPU's compiler reads another text than g++ are findings. Compiles nothing.
"""

import re

from evoflash.app.check.lint import instead_of
from evoflash.kernels.renderer import lint

Unseen = tuple[tuple[str, int], ...]  # what it is, and its line

_LINT = re.compile(r"^(.*) at line (\d+)$")
_CONDITION = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b(.*)$")
_HOST = re.compile(r"defined\W*__CUDACC__\W*&&\s*!\s*defined\W*__CUDACC_RTC__\W*$")
_OF_A_COMPILER = re.compile(
    r"\b(__CUDA_ARCH\w*|__CUDACC\w*|__NVCC__|EF_GPU|__GNUC__|__GNUG__|__clang__|__SANITIZE\w*)"
)
_OTHER_TEXT = "text that g++ and a GPU's compiler read differently"


def unseen_lines(text: str) -> Unseen:
    """What a kernel's text uses that the emulator cannot see, and on which line."""
    kernel = without_host_code(text)
    warnings = (_LINT.match(warning) for warning in lint(kernel))
    found = [(match[1], int(match[2])) for match in warnings if match]
    return (*found, *_other_text(kernel))


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


def _other_text(text: str) -> Unseen:
    code = re.sub(r"//[^\n]*|/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), text, flags=re.DOTALL)
    found = ((_CONDITION.match(line), number) for number, line in enumerate(code.split("\n"), 1))
    return tuple((_OTHER_TEXT, at) for match, at in found if match and _OF_A_COMPILER.search(match[2]))


def plain_cuda(text: str) -> str:
    """What stands in a text that is written for CUDA alone, by line, and what to write instead; or ""."""
    lines = text.split("\n")
    said: dict[str, list[int]] = {}
    for what, line in sorted(unseen_lines(text), key=lambda found: found[1]):
        said.setdefault(instead_of(f"'{lines[line - 1]}'") or what, []).append(line)
    return " ".join(f"Line {', '.join(map(str, at))}: {words}" for words, at in said.items())
