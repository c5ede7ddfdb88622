"""Shows what `check` and `evaluate` say of a kernel file, in the style of a compiler. Decides nothing."""

import contextlib
import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from evoflash.app.check.findings import Finding, kind_facts
from evoflash.app.check.runs import CheckReport
from evoflash.app.judge.answer import KernelAnswer
from evoflash.notices import count_of

_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan", "help": "bold green"}
_GUTTER = "blue"
_PROSE_COLUMNS = 100
_CALL = re.compile(r"\bef::(\w+)")
# Primitives that never report: a line's finding is about another one.
_SILENT = re.compile(
    r"ex2|lg2|rcp|fmax|fma|mul|sub|neg_inf|(to|from)_f32|(un)?pack2|smem_base|at|make_desc|map_shared|b?f16|u\d+"
)
# What a message that begins with the word is about, where a line has several calls.
_ABOUT = {"read": re.compile(r"ld|\w*load"), "write": re.compile(r"st|cp_|\w*(store|load)")}


def print_reports(all_checked: Sequence[CheckReport], console: Console) -> None:
    """Every finding with its source lines, then a summary of each kernel."""
    for checked in all_checked:
        page = _Page(checked, console.width if console.is_terminal else None)
        for finding in checked.findings:
            for line in page.finding(finding):
                console.print(line, soft_wrap=True, highlight=False)
            console.print()
        for note in checked.notes:
            console.print(_prose("note", note, console.width), soft_wrap=True, highlight=False)
        console.print(_summary(checked), soft_wrap=True, highlight=False)
        if not checked.errors:
            for word, text in _grounds(checked):
                console.print(_prose(word, text, console.width), soft_wrap=True, highlight=False)
    kinds = [finding.kind for checked in all_checked for finding in checked.findings]
    if kinds:
        console.print(
            f"What a kind means: evoflash check --explain {kinds[0]}", soft_wrap=True, highlight=False
        )


class _Page:
    """The lines about one kernel's findings. `width` is None where lines may be of any length."""

    def __init__(self, checked: CheckReport, width: int | None) -> None:
        self.lines = checked.subject.shown.splitlines()
        self.path, self.runs, self.width = _short(checked.path), len(checked.runs), width
        numbers = [n for f in checked.findings for n in (f.line, *(p.line for p in f.places))]
        self.helped: set[str] = set()  # remedies that were printed: once is enough
        self.margin = len(str(max(numbers, default=0)))

    def finding(self, finding: Finding) -> Iterator[Text]:
        kind = f"{finding.severity}[{finding.kind}]"
        yield Text.assemble((kind, _STYLES[finding.severity]), (f": {finding.message}", "bold"))
        yield from self._excerpt(
            finding.line,
            column=finding.column,
            style=_STYLES[finding.severity],
            label=finding.where,
            message=finding.message,
        )
        elsewhere = [place for place in finding.places if place.line not in (0, finding.line)]
        for place in elsewhere:
            yield Text.assemble(("note", _STYLES["note"]), f": {place.label}")
            yield from self._excerpt(place.line, style=_STYLES["note"], message=place.label)
        for place in finding.places:
            if place not in elsewhere:
                yield from self._equal("note", place.label + (", on the same line" if place.line else ""))
        if finding.runs:
            yield from self._equal("seen", _occurrences(finding, self.runs))
        if finding.remedy not in self.helped:
            yield from self._equal("help", finding.remedy)
        self.helped.add(finding.remedy)

    def _equal(self, word: str, text: str) -> Iterator[Text]:
        margin = " " * self.margin + " = "
        width = max(30, min(self.width or _PROSE_COLUMNS, _PROSE_COLUMNS) - len(margin) - len(word) - 2)
        first, *more = textwrap.wrap(text, width, break_long_words=False) or [""]
        yield Text.assemble((margin, _GUTTER), (word, _STYLES.get(word, "bold")), f": {first}")
        for line in more:
            yield Text(" " * (len(margin) + len(word) + 2) + line)

    def _excerpt(
        self, line: int, *, column: int = 0, style: str, label: str = "", message: str
    ) -> Iterator[Text]:
        arrow = " " * self.margin + "--> "
        if not 1 <= line <= len(self.lines):
            yield Text.assemble((arrow, _GUTTER), self.path + (f": {label}" if label else ""))
            return
        code = self.lines[line - 1].expandtabs(4).rstrip()
        first, length = _span(code, column, message)
        place = f"{self.path}:{line}:{first + 1}"
        shown, first = self._crop(code, first, length)
        bar = (" " * self.margin + " | ", _GUTTER)
        yield Text.assemble((arrow, _GUTTER), place)
        yield Text.assemble((" " * self.margin + " |", _GUTTER))
        yield Text.assemble((f"{line:>{self.margin}} | ", _GUTTER), shown)
        carets = "^" * min(length, max(1, len(shown) - first))
        yield Text.assemble(bar, " " * first, (carets + (f" {label}" if label else ""), style))

    def _crop(self, code: str, first: int, length: int) -> tuple[str, int]:
        """The part of a line that fits the terminal and holds the span, and where the span begins in it."""
        room = (self.width or len(code) + self.margin + 3) - self.margin - 3
        if len(code) <= room or room < 20:
            return code, first
        start = 0 if first + min(length, room // 2) < room - 3 else first - room // 4
        part = code[start : start + room]
        if start:
            part = "..." + part[3:]
        if start + room < len(code):
            part = part[:-3] + "..."
        return part, first - start


def _span(code: str, column: int, message: str) -> tuple[int, int]:
    """Where to put the carets, from 0: the column, the ef:: call that the message is about, or all code."""
    if column:
        word = re.match(r"\w+", code[column - 1 :])
        return column - 1, len(word[0]) if word else 1
    calls = (
        []
        if message.startswith("plain ")
        else [call for call in _CALL.finditer(code) if not _SILENT.fullmatch(call[1])]
    )
    first_word = message.split(" ")[0]
    about = _ABOUT.get(first_word) or re.compile(re.escape(first_word))
    meant = [call for call in calls if about.match(call[1])] if len(calls) > 1 else calls
    if len(meant) == 1:
        return meant[0].start(), len(meant[0][0])
    text = code.split("//")[0].rstrip() or code
    first = len(text) - len(text.lstrip())
    return first, max(1, len(text) - first)


def _occurrences(finding: Finding, runs: int) -> str:
    times = f", {finding.count:,} times" if finding.count > finding.runs else ""
    return f"in {finding.runs} of {runs} runs{times}; first with {finding.first_run}"


def _prose(word: str, text: str, width: int) -> Text:
    lines = textwrap.wrap(text, max(30, min(width, _PROSE_COLUMNS) - len(word) - 2), break_long_words=False)
    return Text.assemble((word, _STYLES.get(word, "bold")), ": " + ("\n" + " " * (len(word) + 2)).join(lines))


def _summary(checked: CheckReport) -> Text:
    cases = len({record.case for record in checked.runs})
    ran = (
        f" in {count_of(len(checked.runs), 'run')} over {count_of(cases, 'shape')}"
        if cases
        else "; it was not run"
    )
    build = checked.build
    resources = f"; {build.registers} registers, {build.spill_bytes} bytes spilled" if build else ""
    word = checked.verdict
    style = _STYLES["help" if word == "passed" else "error"]
    counts = [count_of(checked.errors, "error"), count_of(checked.warnings, "warning")]
    counted = (
        "no findings" if not checked.findings else ", ".join(c for c in counts if not c.startswith("0 "))
    )
    return Text.assemble((word, style), f": {checked.subject.title}: {counted}{ran}{resources}")


def _grounds(checked: CheckReport) -> Iterator[tuple[str, str]]:
    """What a verdict without errors rests on."""
    coverage = checked.coverage
    nothing = "Nothing: no output was changed and compared with anything, so this says nothing of the kernel."
    yield "compared", " ".join(coverage.compared) or nothing
    if coverage.seen:
        yield "seen", " ".join(coverage.seen)
    yield "not compared", " ".join(coverage.left_open)


def _short(path: Path) -> str:
    """The path as a person would type it."""
    for known, prefix in ((Path.cwd, ""), (Path.home, "~/")):
        with contextlib.suppress(OSError, RuntimeError):  # a folder that is gone, a user without a home
            if path.is_absolute() and path.is_relative_to(base := known()):
                return prefix + str(path.relative_to(base))
    return str(path)


def explain(kind: str) -> str:
    """What a kind of finding means, and what to do; UsageError lists the kinds."""
    known = kind_facts(kind)
    wrap = textwrap.TextWrapper(_PROSE_COLUMNS)
    head = f"{known['severity']}[{kind}]"
    parts = (head, wrap.fill(known["meaning"]), wrap.fill(f"What to do: {known['help']}"))
    return "\n".join(parts)


def answer_text(answer: KernelAnswer) -> str:
    """The file, what became of it line by line, what it was checked on, and what that leaves open."""
    worst = ""
    if answer.worst:
        worst = f"; the largest error, {answer.worst['rel_l2']:.2g}, at {answer.worst['shape']}"
    lines = [
        f"{answer.file}: {answer.text_feedback}",
        f"{answer.checks} outputs compared with the reference{worst}",
        f"score {answer.score:.3f}; {answer.seconds:.1f} s; sandbox: {answer.sandbox or 'none'}; "
        f"seed {answer.seed}",
    ]
    return "\n".join([*lines, *(f"note: {note}" for note in answer.notes)])
