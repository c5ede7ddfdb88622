"""What compute-sanitizer said, read from its output, and whether that is a diagnosis of a planted fault.

A report counts as a diagnosis if the tool does not give it for the right kernel; whether it names the fault's
own lines is told apart. Runs nothing.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from scripts.sanitizer.jobs import SOURCE

Record = dict[str, Any]

_MARK = "========="
_PLACE = re.compile(r"([\w.+-]+\.(?:cuh?|h|hpp)):(\d+)")
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK|LEAK) SUMMARY: (.*)")
# What is no finding about the kernel: the frame of the output, and what the runner's own end is called.
_FRAME = re.compile(
    r"COMPUTE-SANITIZER|\w+ SUMMARY|Target application|Error: process didn't terminate"
    r"|Error: couldn't find exit|Program hit|Saved host backtrace"
)
# The tool's own failure.
_FAILURE = re.compile(
    r"Internal Sanitizer|Internal error|Device not supported|No attachable process|Could not connect"
    r"|Failed to|not supported by|Unable to|terminated before first",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+", re.IGNORECASE)
_HUNG = "did not end within"
_LINES_KEPT = 4


@dataclass(frozen=True, slots=True)
class Said:
    """One report of a tool."""

    title: str
    places: tuple[tuple[str, int], ...]  # file and line, the innermost first; device frames only
    detail: str = ""  # its second line

    def signature(self, lines: list[str]) -> tuple[str, ...]:
        """The same for the same complaint when lines have moved: no numbers, and texts for lines."""
        texts = (
            lines[line - 1].strip() if file == SOURCE and 0 < line <= len(lines) else f"{file}:{line}"
            for file, line in self.places
        )
        return (_NUMBER.sub("N", self.title), *sorted(set(texts)))


def reports(output: str) -> list[Said]:
    """The tool's reports, in its order."""
    found: list[tuple[str, list[str]]] = []
    for line in output.splitlines():
        if not line.startswith(_MARK):
            continue
        body = line[len(_MARK) :]
        if body.startswith("    ") or not body.strip():
            if found and body.strip():
                found[-1][1].append(body.strip())
        else:
            found.append((body.strip(), []))
    return [
        _said(title, rest) for title, rest in found if not _FRAME.match(title) and not _FAILURE.search(title)
    ]


def _said(title: str, rest: list[str]) -> Said:
    device = [line for line in rest if not line.startswith("Host Frame")]
    places = dict.fromkeys(
        (file, int(line)) for text in (title, *device) for file, line in _PLACE.findall(text)
    )
    return Said(title, tuple(places), device[0] if device else "")


def failure(output: str) -> str:
    """The line in which the tool says that it could not work, or ""."""
    marked = (line[len(_MARK) :].strip() for line in output.splitlines() if line.startswith(_MARK))
    return next((line for line in marked if _FAILURE.search(line)), "")


def summary(output: str) -> str:
    """What the tool's last line counts, or ""."""
    found = _SUMMARY.findall(output)
    return found[-1] if found else ""


def ending(run: Record) -> str:
    """How the kernel's process ended: "done", "hung", or "crashed"."""
    if run["code"] is None or _HUNG in run["output"]:
        return "hung"
    return "crashed" if "runner: " in run["output"] else "done"


def diagnosis(run: Record, right: Record | None, text: str, right_text: str, own: Iterable[int]) -> Record:
    """A tool's run on a faulty kernel beside its run on the right one; `own` are the fault's lines.

    "outcome": "found", "silent" (no report that the right kernel does not get as well), or "failed" (the tool
    gave no report and no summary: it crashed, was killed at the time limit, or said that it cannot work).
    """
    said = reports(run["output"])
    known = {each.signature(right_text.splitlines()) for each in reports(right["output"])} if right else set()
    lines, own_lines = text.splitlines(), {(SOURCE, line) for line in own}
    new = [each for each in said if each.signature(lines) not in known]
    at_fault = [each for each in new if own_lines & set(each.places)]
    worked = bool(new) or (bool(summary(run["output"])) and not failure(run["output"]))
    first = next(iter(at_fault or new), None)
    return {
        "outcome": "found" if new else "silent" if worked else "failed",
        "at_fault": bool(at_fault),
        "said": _one_line(first) if first else "",
        "reports": len(said),
        "new": len(new),
        "ending": ending(run),
        "seconds": round(run["seconds"], 2),
        "first_lines": first_lines(run["output"]),
    }


def first_lines(output: str) -> list[str]:
    """The beginning of what was said, for the record."""
    lines = [line.removeprefix(_MARK).rstrip()[:150] for line in output.splitlines()]
    return [line for line in lines if line.strip() not in ("", "COMPUTE-SANITIZER")][:_LINES_KEPT]


def _one_line(said: Said) -> str:
    """The report in a line, with the places that it names."""
    places = ", ".join(f"{file}:{line}" for file, line in said.places[:3])
    title = said.title.partition(" at ")[0]
    return f"{title} ({places})" if places else f"{title} {said.detail}".strip()
