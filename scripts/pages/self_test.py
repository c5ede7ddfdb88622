"""Writes the tables of docs/self-test.md from the corpus of frauds; `--check` says whether they are stale.

    python -m scripts.pages.self_test [--check]

What stands above the marker is written by hand and stays.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from evoflash.trust.selftest import staged_frauds
from evoflash.trust.selftest.corpus import ExpectedRejection, Fraud, Honest, corpus, kernels
from scripts import ROOT
from scripts.pages import markdown

PAGE = ROOT / "docs" / "self-test.md"
MARK = "<!-- scripts/pages/self_test.py writes what follows -->\n"
_HEADS = ("name", "what it does", "from", "in the emulator", "on a GPU")


def tables() -> str:
    """A table for each kernel, one of the mistakes at size, one of what needs no kernel or a clock."""
    parts = [*map(_kernel, kernels()), _at_size(), _without_a_kernel()]
    return "\n".join(parts)


def _kernel(kernel: Honest) -> str:
    frauds = [f for f in corpus() if f.kernel.name == kernel.name and not f.is_control]
    values = " ".join(f"{name}={value}" for name, value in kernel.values.items())
    about = f"`{kernel.family}` with {values}, timed on `{kernel.problem}`; by itself the control."
    return _table(f"Made of {kernel.name}", about, map(_cells, frauds))


def _cells(fraud: Fraud) -> tuple[str, ...]:
    return fraud.name, fraud.does, fraud.source, _ends(fraud.emulated), _ends(fraud.measured)


def _ends(expected: ExpectedRejection) -> str:
    joined = " and " if expected.every else " or "
    return f"not tried: {expected.skip}" if expected.skip else joined.join(expected.rungs)


def _at_size() -> str:
    shapes = " and ".join(f"`{workload}`" for workload in staged_frauds.WORKLOADS)
    names = ", ".join(each.name for each in staged_frauds.MISTAKES if each.expected_rejection.rungs)
    return (
        "## At size\n\n"
        f"NumPy in the kernel's place, judged as a kernel at the benchmark's shape, on {shapes}: {names}. "
        "The control is careful arithmetic in the same precision.\n"
    )


def _without_a_kernel() -> str:
    about = "Made-up times and rows, judged by what judges real ones; contenders that cheat the clock."
    books = ((b.name, b.does, b.source, b.rung, "the same") for b in staged_frauds.BOOKS if b.words)
    cheats = (
        (c.name, c.does, c.source, "not tried: no clock", "timing") for c in staged_frauds.CHEATS if c.words
    )
    return _table("Clock and books", about, [*books, *cheats])


def _table(title: str, about: str, rows: Iterable[tuple[str, ...]]) -> str:
    return f"## {title}\n\n{about}\n\n" + "\n".join(markdown.table(_HEADS, rows)) + "\n"


def fresh_pages() -> Iterator[tuple[Path, str]]:
    """The page, and what it should be."""
    yield PAGE, PAGE.read_text(encoding="utf-8").partition(MARK)[0] + MARK + "\n" + tables()


if __name__ == "__main__":
    sys.exit(markdown.run(__doc__, "scripts.pages.self_test", fresh_pages))
