"""Finds the synchronisation and the bounds predicates in a rendered kernel and weakens them, one at a time.

Works on the text, so that it knows no family: any call of an ef:: primitive whose name speaks of waiting,
arriving, fencing or synchronising, any comparison that a branch, a ternary or a flag rests on, the bounds of
loops that threads share or that end at run time, and the constants 1 in such sums. Runs nothing.

It leans on how rendered kernels are written: operators stand between spaces, template brackets do not.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_NO_CODE = re.compile(r"//[^\n]*|/\*.*?\*/|^[ \t]*#[^\n]*", re.DOTALL | re.MULTILINE)
# "async" is no synchronisation, and what is named after it waits or commits all the same.
_SYNC = re.compile(
    r"\bef::(\w*(?:(?<!a)sync|bar_|wait|fence|commit|arrive|expect|mbar|cluster_s|depend|elect)\w*)"
)
_VALUED = {"any_sync": 0, "all_sync": 0, "syncthreads_or": 0}  # what the thread knows by itself: argument 0
_COMPARISON = re.compile(r" (<=|>=|==|!=|<|>) ")
_POINTER = re.compile(r"\bif \(([A-Z]+)(?= &&|\))")  # whether an array is wanted at all
_FOR = re.compile(r"\bfor \(")
_ONE = re.compile(r"(?<=[\w)]) ([+-]) 1(?![\w.])")
# Comparisons of floats: an offset of 1 would be another tuning, not another bound.
_FLOATING = re.compile(r"\d\.\d|neg_inf|scale|kTau|kBound|tile_max")
_RUNTIME = re.compile(r"\b(?!k[A-Z]|int\b|u32\b|sizeof\b)[a-z]\w*")
_SHARED = re.compile(r"threadIdx|\blane\b|\bthread\b|blockIdx")
_TOGGLED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of a text: `before` at `start` becomes `after`."""

    start: int
    before: str
    after: str
    group: str  # "sync" or "predicate"
    change: str  # what was done, in a word: "deleted", "true", "looser" ...
    line: int  # in the text
    site: str  # the line's text, comment included
    context: str  # the line before it that is not empty
    follows: str  # the line after it that is not empty

    def apply(self, text: str) -> str:
        return text[: self.start] + self.after + text[self.start + len(self.before) :]

    @property
    def what(self) -> str:
        """The change in words: 'deleted: ef::syncthreads()'."""
        short = " ".join(self.before.split())
        return f"{self.change}: {short}"

    @property
    def what_at(self) -> str:
        """The same with the line: 'true: row < rows @ const bool inside = row < rows;'."""
        return f"{self.what} @ {self.site}"


def mutants(text: str) -> list[Mutant]:
    """All single changes of a kernel's text, in the order of the text."""
    code = _without_comments(text)
    found = [*_synchronisation(code), *_predicates(code), *_ones(code)]
    lines, starts = text.splitlines(), _line_starts(text)
    made = []
    for start, end, after, group, change in sorted(found):
        number = _line_of(starts, start)
        site, context = lines[number - 1].strip(), _first_text(reversed(lines[: number - 1]))
        follows = _first_text(lines[number:])
        made.append(Mutant(start, text[start:end], after, group, change, number, site, context, follows))
    return made


def _first_text(lines: Iterable[str]) -> str:
    return next((line.strip() for line in lines if line.strip()), "")


_Change = tuple[int, int, str, str, str]  # start, end, after, group, change


def _without_comments(text: str) -> str:
    """The text with blanks for comments and preprocessor lines; offsets stay."""
    return re.sub(
        r"//[^\n]*|/\*.*?\*/|^[ \t]*#[^\n]*", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S | re.M
    )


def _line_starts(text: str) -> list[int]:
    return [0, *(m.end() for m in re.finditer("\n", text))]


def _line_of(starts: list[int], offset: int) -> int:
    return sum(start <= offset for start in starts)


# ---- synchronisation


def _synchronisation(code: str) -> Iterator[_Change]:
    for match in _SYNC.finditer(code):
        start, template_end = match.start(), _template_end(code, match.end())
        if code[template_end : template_end + 1] != "(":
            continue
        end = _closing(code, template_end) + 1
        arguments = _arguments(code[template_end + 1 : end - 1])
        template, gone = code[match.end() : template_end], _without(code, start, end)
        for after, change in _weakened(match[1], template, arguments, gone):
            yield start, end, after, "sync", change


def _without(code: str, start: int, end: int) -> str:
    """What stands for a call that is left out: nothing for a statement, true for a value."""
    before = code[:start].rstrip()
    is_statement = code[end:].lstrip()[:1] == ";" and (before[-1:] in ";{})" or before.endswith("else"))
    return "(void)0" if is_statement else "true"


def _weakened(name: str, template: str, arguments: list[str], gone: str) -> Iterator[tuple[str, str]]:
    if name in _VALUED:
        yield f"({arguments[_VALUED[name]]})", "deleted"
        if name == "syncthreads_or":
            yield f"ef::any_sync({arguments[0]})", "warp only"
        return
    yield gone, "deleted"
    if name == "syncthreads":
        yield "ef::syncwarp()", "warp only"
    if template and "wait" in name:
        yield f"ef::{name}<{template[1:-1]} + 1>({', '.join(arguments)})", "one group more pending"
    yield from _weakened_arguments(name, template, arguments)


def _weakened_arguments(name: str, template: str, arguments: list[str]) -> Iterator[tuple[str, str]]:
    def call(other: str, *changed: str) -> str:
        return f"ef::{other}{template}({', '.join(changed)})"

    if name in ("bar_sync", "bar_arrive"):
        yield call(name, arguments[0], f"{arguments[1]} - 32"), "fewer threads"
    if name == "bar_sync":
        yield call("bar_arrive", *arguments), "no wait"
    if name.startswith("mbar") and ("wait" in name or "poll" in name):
        yield call(name, arguments[0], f"(({arguments[1]}) ^ 1)", *arguments[2:]), "other parity"
    if "expect_tx" in name:
        yield call(name, *arguments[:-1], f"({arguments[-1]}) / 2"), "half the bytes"
    if name == "mbar_init":
        yield call(name, arguments[0], f"({arguments[1]}) + 1", *arguments[2:]), "one arrival more"
        yield call(name, arguments[0], f"({arguments[1]}) - 1", *arguments[2:]), "one arrival fewer"


def _template_end(code: str, at: int) -> int:
    if code[at : at + 1] != "<":
        return at
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] == "<") - (code[i] == ">")
        if depth == 0:
            return i + 1
    return at


def _closing(code: str, opening: int) -> int:
    depth = 0
    for i in range(opening, len(code)):
        depth += (code[i] in "([{") - (code[i] in ")]}")
        if depth == 0:
            return i
    raise ValueError(f"the bracket at {opening} is never closed")


def _arguments(inside: str) -> list[str]:
    parts, depth, begin = [], 0, 0
    for i, letter in enumerate(inside):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append(inside[begin:i].strip())
            begin = i + 1
    return [*parts, inside[begin:].strip()] if inside.strip() else []


# ---- predicates


def _predicates(code: str) -> Iterator[_Change]:
    loops = list(_loops(code))
    for match in _COMPARISON.finditer(code):
        left, right = _operands(code, match.start(), match.end())
        whole = code[left:right]
        if code[left - 14 : left].endswith("static_assert(") or "constexpr" in _line(code, left):
            continue
        loop = next((header for begin, end, header in loops if begin <= match.start() < end), None)
        if loop is not None:
            if _is_shared_loop(loop, code[match.end() : right]):
                yield from _shifted(left, right, whole, match, code)
            continue
        for constant in ("true", "false"):
            yield left, right, constant, "predicate", constant
        if match[1] in _TOGGLED and not _FLOATING.search(whole):
            yield from _shifted(left, right, whole, match, code)
    for match in _POINTER.finditer(code):
        yield match.start(1), match.end(1), "true", "predicate", "true"


def _shifted(left: int, right: int, whole: str, match: re.Match[str], code: str) -> Iterator[_Change]:
    other = _TOGGLED[match[1]] if match[1] in _TOGGLED else match[1]
    toggled = whole[: match.start(1) - left] + other + whole[match.end(1) - left :]
    yield left, right, toggled, "predicate", f"{match[1]} to {other}"
    # The other way: a < b toggled is a < b + 1, hence a < b - 1.
    bound = code[match.end() : right].rstrip()
    step = "- 1" if match[1] in ("<", ">=") else "+ 1"
    shifted = f"{whole[: match.end() - left]}{bound} {step}"
    yield left, right, shifted, "predicate", f"bound {step}"


def _loops(code: str) -> Iterator[tuple[int, int, str]]:
    """Where the condition of each `for` lies, and its whole header."""
    for match in _FOR.finditer(code):
        end = _closing(code, match.end() - 1)
        header = code[match.end() : end]
        first, last = header.find(";"), header.rfind(";")
        yield match.end() + first + 1, match.end() + last, header


def _is_shared_loop(header: str, bound: str) -> bool:
    """Threads divide its turns, or it ends where the workload says."""
    return bool(_SHARED.search(header) or _RUNTIME.search(bound))


def _operands(code: str, operator: int, after: int) -> tuple[int, int]:
    """Where the comparison around an operator begins and ends."""
    return _reach(code, operator - 1, -1) + 1, _reach(code, after, +1)


def _reach(code: str, at: int, step: int) -> int:
    depth, opening, closing = 0, "([{", ")]}"
    if step < 0:
        opening, closing = closing, opening
    while 0 <= at < len(code):
        letter = code[at]
        if letter in closing:
            if depth == 0:
                break
            depth -= 1
        elif letter in opening:
            depth += 1
        elif depth == 0 and (letter in ";{}," or _stops(code, at)):
            break
        at += step
    return _trimmed(code, at, step)


def _stops(code: str, at: int) -> bool:
    """Whether an operator that binds less than a comparison stands here, or a word that ends it."""
    letter, pair = code[at], code[at - 1 : at + 1]
    if "&&" in (pair, code[at : at + 2]) or "||" in (pair, code[at : at + 2]):
        return True
    if letter in "?:":
        return pair[0] == " "  # not "::"
    if letter == "=":
        return pair not in ("==", "!=", "<=", ">=") and code[at + 1 : at + 2] != "="
    return code[at - 6 : at + 1] == "return "


def _trimmed(code: str, at: int, step: int) -> int:
    """The last blank before the operand, or the end of it without blanks."""
    while step < 0 and code[at + 1].isspace():
        at += 1
    while step > 0 and code[at - 1].isspace():
        at -= 1
    return at


# ---- constants


def _ones(code: str) -> Iterator[_Change]:
    """+ 1 and - 1 in the sums that bounds, limits and stages are made of; not in indices or constants."""
    for match in _ONE.finditer(code):
        if _in_index(code, match.start()) or "constexpr" in _line(code, match.start()):
            continue
        for other in ("0", "2"):
            start, end = match.start() + 1, match.end()
            yield start, end, f"{match[1]} {other}", "predicate", f"{match[1]} 1 to {match[1]} {other}"


def _in_index(code: str, at: int) -> bool:
    depth = 0
    for i in range(at, code.rfind("\n", 0, at), -1):
        depth += (code[i] == "]") - (code[i] == "[")
        if depth < 0:
            return True
    return False


def _line(code: str, at: int) -> str:
    begin, end = code.rfind("\n", 0, at) + 1, code.find("\n", at)
    return code[begin : end if end >= 0 else len(code)]
