"""What the lint, g++, NVRTC and ptxas say about a kernel's text, as findings. Compiles nothing.

Where the emulator cannot see something that a kernel does (kernels/lint.py), or g++ does not know it, the
finding names the function of the ef:: layer that does the same. Host code under
`#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)` is no part of the kernel and is left out.
"""

import re

from evoflash.app.check.findings import Finding, Place
from evoflash.evaluation import Build
from evoflash.kernels.lint import KEPT, Refusal, instead_of, lint


def unseen_in(unseen: tuple[Refusal, ...], *, shift: int) -> tuple[Finding, ...]:
    """A finding for each thing that the lint refuses."""
    return tuple(
        Finding(
            "kept-state" if each.what in KEPT else "unseen",
            each.what,
            line=each.line + shift,
            instead="" if each.what in KEPT else each.instead,
        )
        for each in unseen
    )


def beyond_in(beyond: tuple[Refusal, ...]) -> tuple[Finding, ...]:
    """A finding for each thing in plain CUDA that the emulator has no way to run."""
    return tuple(Finding("gpu-only", each.what, line=each.line) for each in beyond)


_GCC = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:(?P<column>\d+):)? (?:fatal )?error: (?P<text>.*)$")
_GCC_FROM = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:\d+:)?\s+(?:required|recursively required) from")
_NVRTC = re.compile(r"^(?P<file>[^(\n]+)\((?P<line>\d+)\): (?:catastrophic )?error: (?P<text>.*)$")
_CODE = re.compile(r"\(?\b(C7\d\d\d)\b\)?")
_SERIALIZED = re.compile(r"wgmma")
_MOST = 8  # errors of one compilation: later ones follow from the first


def from_gcc(log: str, *, file: str, shift: int = 0) -> tuple[Finding, ...]:
    """g++'s errors. `file` is the kernel's name there; one inside ef.h points at the line that led there."""
    findings, came_from = [], 0
    for text in log.splitlines():
        origin, error = _GCC_FROM.match(text), _GCC.match(text)
        if origin and _is(origin["file"], file):
            came_from = int(origin["line"])
        if not error:
            continue
        own = _is(error["file"], file)
        line = int(error["line"]) if own else came_from
        column = int(error["column"] or 0) if own else 0
        findings.append(
            Finding(
                "compile",
                error["text"],
                line=line + shift if line else 0,
                column=column if line else 0,
                instead=instead_of(" ".join(re.findall(r"'([^']*)'", error["text"]))),
            )
        )
        came_from = 0
    first = log.splitlines()[0] if log else "g++ said nothing"
    return tuple(_distinct(findings)[:_MOST]) or (Finding("compile", first),)


def from_nvrtc(log: str, *, file: str, shift: int = 0) -> tuple[Finding, ...]:
    findings = []
    for text in log.splitlines():
        error = _NVRTC.match(text)
        if error:
            line = int(error["line"]) + shift if _is(error["file"], file) else 0
            inside = "" if line else f" ({error['file']}, line {error['line']})"
            findings.append(Finding("nvrtc", error["text"] + inside, line=line))
    first = next((line for line in log.splitlines() if line.strip()), "NVRTC said nothing")
    return tuple(_distinct(findings)[:_MOST]) or (Finding("nvrtc", first.strip()),)


def from_build(build: Build, *, arch: str) -> tuple[Finding, ...]:
    """Spills, and ptxas's warnings and C75xx messages."""
    findings = []
    if build.spill_bytes:
        message = (
            f"{build.spill_bytes} bytes of spill stores and loads at {build.registers} registers ({arch})"
        )
        findings.append(Finding("spills", message))
    for warning in build.warnings:
        code = _CODE.search(warning)
        kind = "wgmma-serialized" if code and _SERIALIZED.search(warning) else "ptxas"
        text = re.sub(r"^ptxas (?:info|warning)\s*:\s*", "", warning)
        findings.append(Finding(kind, text, places=(Place(0, f"from ptxas for {arch}"),)))
    return tuple(_distinct(findings))


def _is(file: str, wanted: str) -> bool:
    return file.rpartition("/")[2] == wanted


def _distinct(findings: list[Finding]) -> list[Finding]:
    return list(dict.fromkeys(findings))


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
