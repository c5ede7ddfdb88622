"""What g++, NVRTC and ptxas say about a kernel, as findings; runs none of them."""

import re

from evoflash.commands.check.findings import Finding, Place
from evoflash.commands.check.unseen import instead_of
from evoflash.evaluation import Build

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
                instead=instead_of(error["text"]),
            )
        )
        came_from = 0
    first = log.splitlines()[0] if log else "g++ said nothing"
    return tuple(_distinct(findings)[:_MOST]) or (Finding("compile", first),)


def from_nvrtc(log: str, *, file: str, shift: int = 0) -> tuple[Finding, ...]:
    """NVRTC's errors."""
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
