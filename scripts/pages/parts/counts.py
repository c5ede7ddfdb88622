"""What is generated within README.md and hand-written pages of docs/: readme.py puts it in. Each makes text.

A sentence is found by its words: one that was reworded is an error here, so that no number is forgotten.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evoflash.strategies.operators import operators
from evoflash.trust.conformance.cases import primitives
from evoflash.trust.selftest import staged_frauds
from evoflash.trust.selftest.corpus import corpus
from scripts import ROOT
from scripts.records import read_record

_CONFORMANCE = ROOT / "scripts" / "validation" / "records" / "conformance-h100.json"


@dataclass(frozen=True, slots=True)
class Count:
    """A sentence of a page with a number in it, and what the number is."""

    page: str  # from the root
    words: str  # around the number, which stands at {}
    number: Callable[[], int]


def frauds() -> int:
    """Frauds and mistakes of the self-test, its controls not counted."""
    of_kernels = sum(not fraud.is_control for fraud in corpus())
    at_size = sum(bool(mistake.expected_rejection.rungs) for mistake in staged_frauds.MISTAKES)
    books = sum(bool(book.words) for book in staged_frauds.BOOKS)
    return of_kernels + at_size + books + sum(bool(cheat.words) for cheat in staged_frauds.CHEATS)


def cases(arch: str = "sm_90a") -> int:
    """Cases of conformance on that architecture."""
    return sum(1 for primitive in primitives() if primitive.runs_on(arch) for _ in primitive.cases())


def _recorded(what: str) -> int:
    record: dict[str, Any] = read_record(_CONFORMANCE)
    return int(record[what])


COUNTS = (
    Count("README.md", "there are {} so far", lambda: len(operators())),
    Count("README.md", "{} frauds and mistakes", frauds),
    Count("docs/searching.md", "by {} named operators", lambda: len(operators())),
    Count("docs/self-test.md", "{} frauds and mistakes", frauds),
    Count("docs/conformance.md", "every combination is one case, {} of them on sm_90a", cases),
    Count("docs/conformance.md", "On an H100 {} of", lambda: _recorded("equal")),
    Count("docs/conformance.md", "of {} cases were equal", lambda: _recorded("cases")),
)


def counted(page: str, text: str) -> str:
    """The text of a page with its numbers as they are today. ValueError for a sentence that is not there."""
    for count in COUNTS:
        if count.page == page:
            text = _replaced(text, count)
    return text


def _replaced(text: str, count: Count) -> str:
    before, after = count.words.split("{}")
    pattern = rf"({re.escape(before)})[\d,]+({re.escape(after)})"
    fresh, found = re.subn(pattern, rf"\g<1>{count.number():,}\g<2>", text)
    if not found:
        raise ValueError(f"{count.page} says '{count.words}' no longer: adapt scripts/pages/parts/counts.py.")
    return fresh
