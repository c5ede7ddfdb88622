"""Which lines of a kernel the places in its library come from, by its debug information. Runs no kernel."""

import itertools
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

Calls = tuple[int, ...]  # offsets into a library: a place, and where that was called from, innermost first


def lines_of(library: Path, calls: Calls) -> tuple[int, ...]:
    """The text's lines at the places, innermost first.

    A call that was inlined counts as well; empty when it cannot be told.
    """
    return _lines(_places(library, calls), calls)


def first_lines(library: Path, sites: Sequence[Calls]) -> dict[Calls, int]:
    """The innermost line of each site's calls; 0 where it cannot be told."""
    places = _places(library, tuple(dict.fromkeys(itertools.chain.from_iterable(sites))))
    return {calls: next(iter(_lines(places, calls)), 0) for calls in sites}


_Lines = tuple[int, ...]
_Places = dict[
    int, tuple[_Lines, _Lines]
]  # by offset: of the text under its name, and under that of g++'s input


def _lines(places: _Places, calls: Calls) -> tuple[int, ...]:
    found = [places.get(offset, ((), ())) for offset in calls]
    # g++ forgets the text's name where a function begins, those of the ef:: layer among them.
    lines = [line for named, _ in found for line in named] or [line for _, other in found for line in other]
    return tuple(line for line, _ in itertools.groupby(lines))


@lru_cache(maxsize=64)
def _places(library: Path, offsets: tuple[int, ...]) -> _Places:
    """By offset its line, and those of the inlined calls that hold it, innermost first."""
    if not offsets or not shutil.which("addr2line"):
        return {}
    said = _teller(library, offsets)
    parts = re.split(r"^0x([0-9a-f]+)$", said, flags=re.MULTILINE)[1:]
    names = (rf"/{re.escape(library.stem)}\.cu", "/<stdin>")
    return {
        int(offset, 16): (_numbers(names[0], text), _numbers(names[1], text))
        for offset, text in zip(parts[::2], parts[1::2], strict=True)
    }


def ask_addr2line(library: Path, offsets: Sequence[int]) -> str:
    """What addr2line says of places in a library."""
    command = ["addr2line", "--addresses", "--inlines", "--exe", str(library), *map(hex, offsets)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


Teller = Callable[[Path, Sequence[int]], str]
_teller: Teller = ask_addr2line


def ask_instead(teller: Teller) -> None:
    """From now on ask this for what addr2line says: in a process that may start no other."""
    global _teller
    _teller = teller


def _numbers(name: str, text: str) -> _Lines:
    return tuple(int(number) for number in re.findall(rf"{name}:(\d+)", text))
