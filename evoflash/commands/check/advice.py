"""What each kind of finding of `evoflash check` means and what to do about it (advice.toml). Finds nothing.

A kind is what the emulator's C++ calls it, or what runs.py finds by itself: a wrong result, a slow access, a
message of the compilers.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Advice:
    """A kind of finding, for people."""

    meaning: str  # one sentence
    remedy: str  # what to do
    second: str = "the other place"  # what stands on a report's second line
    # Whether the mend belongs at the second place: a finding begins with that line then, and the line where
    # it was noticed comes after it.
    mended_at_second: bool = False
    severity: Severity = "error"
    stops: bool = False  # whether the rest of the launch is not run, so that its output says nothing


def _read() -> Mapping[str, Advice]:
    text = Path(__file__).with_name("advice.toml").read_text(encoding="utf-8")
    return {kind: Advice(**entry) for kind, entry in tomllib.loads(text).items()}


KINDS = _read()
_UNKNOWN = Advice(
    "The emulator reports a kind that this table does not hold.",
    "The message says what it saw; please report the missing entry.",
)


def advice(kind: str) -> Advice:
    """What is known about a kind; a kind without an entry says so."""
    return KINDS.get(kind, _UNKNOWN)
