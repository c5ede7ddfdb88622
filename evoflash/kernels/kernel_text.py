"""A kernel's text as compilers read it: lines joined where they are spliced, without comments, in words.

Strings keep their quotes alone. Lines of the preprocessor stand apart. Judges nothing.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass

INCLUDE = re.compile(r'\s*#\s*include\s*"ef\.h"\s*')  # the string that is kept, beside "C"

_SPLICE = re.compile(r"\\[ \t\r\f\v]*\n")
# Strings before comments, as either may hold what looks like the other.
_PIECE = re.compile(
    r"""(?P<raw>\b(?:u8|u|U|L)?R"(?P<mark>[^ ()\\\t\v\f\n]*)\(.*?\)(?P=mark)")"""
    r"""|(?P<string>"(?:[^"\\\n]|\\.)*"?)|(?P<letter>(?<![0-9a-zA-Z_])'(?:[^'\\\n]|\\.)*'?)"""
    r"""|(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))""",
    re.DOTALL,
)
WORD = re.compile(r"[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|[\w.'])*|\"[^\"\n]*\"?|::|->|&&|\|\||[^\s\w]", re.ASCII)
_HASH = re.compile(r"^[ \t]*#[^\n]*", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class KernelText:
    """The words in their order, and the preprocessor's lines from the # on; each with its place in `code`."""

    code: str  # joined, without comments; as long as what was joined
    names: tuple[str, ...]  # the words
    places: tuple[int, ...]
    directives: tuple[tuple[str, int], ...]
    raw_strings: tuple[int, ...]  # where one begins
    begins: tuple[int, ...]  # of the source's lines

    def line(self, place: int) -> int:
        """The source's line, from 1."""
        return bisect_right(self.begins, place)


def kernel_text(source: str) -> KernelText:
    joined, begins = _join_lines(source)
    raw_strings: list[int] = []

    def blank(piece: re.Match[str]) -> str:
        if piece["raw"] is not None:
            raw_strings.append(piece.start())
        if piece["string"] is not None:
            line = joined[joined.rfind("\n", 0, piece.start()) + 1 : piece.end()]
            if piece[0] == '"C"' or INCLUDE.fullmatch(line):
                return piece[0]
            return '"' + " " * (len(piece[0]) - 2) + '"'[: len(piece[0]) - 1]
        return re.sub(r"[^\n]", " ", piece[0])

    code = _PIECE.sub(blank, joined)
    directives = tuple((found[0].strip(), found.start()) for found in _HASH.finditer(code))
    words = list(WORD.finditer(_HASH.sub(lambda found: " " * len(found[0]), code)))
    return KernelText(
        code,
        tuple(word[0] for word in words),
        tuple(word.start() for word in words),
        directives,
        tuple(raw_strings),
        begins,
    )


def _join_lines(source: str) -> tuple[str, tuple[int, ...]]:
    """The text without splices, and where in it each line of the source begins."""
    parts, begins, at = _SPLICE.split(source), [0], 0
    for number, part in enumerate(parts):
        begins += [at + found.end() for found in re.finditer("\n", part)]
        at += len(part)
        if number < len(parts) - 1:
            begins.append(at)
    return "".join(parts), tuple(begins)
