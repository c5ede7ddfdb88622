"""Merges the reports of many runs into findings about a kernel, and picks out slow accesses.

There is one finding for each kind and line. Lines are those of the text that was run, shifted where the
reader's file holds that text further down. What a kind of finding means and what to do about it stands in
advice.toml. Prints nothing.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from evoflash.emulator.launch import EmulatorReport, Site
from evoflash.errors import UsageError

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


def kind_facts(kind: str) -> dict[str, str]:
    """What a kind of finding means, and what to do; UsageError lists the kinds."""
    if kind not in KINDS:
        raise UsageError(f"no finding is called '{kind}': use {', '.join(sorted(KINDS, key=str.lower))}.")
    known = KINDS[kind]
    return {"kind": kind, "severity": known.severity, "meaning": known.meaning, "help": known.remedy}


_BLOCK = re.compile(r"^((?:cluster|block) [^:]*): ")
_GROUPS = re.compile(r"; (?=threads? |only )")
_LINE = re.compile(r"\bline (\d+)")
_MOST_PLACES = 4
_NOTICED = "where it was noticed"  # the symptom's line, where the line to mend comes first
# Of these, the two places are alike: line 3 against line 5 is the same finding as 5 against 3.
_SYMMETRIC = ("divergence", "named-barrier", "race-WAW", "race-global", "double-write-global")
# A site is slow when its excess is this share of all that the launch moves through that memory: a tail's
# half-used sector is not worth a word.
_SLOW_SHARE = 0.02
_SHARED_OPS = ("lds", "sts", "ldmatrix", "cp_async_shared")


@dataclass(frozen=True, slots=True)
class Place:
    """A second place of a finding. `line` is 0 where there is only something to say."""

    line: int
    label: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to fix, as often as it was seen."""

    kind: str
    message: str  # one line
    line: int = 0  # 0: not known
    column: int = 0  # from 1; 0: the whole line
    where: str = ""  # "block (0,0,0)"
    places: tuple[Place, ...] = ()
    runs: int = 0  # in how many runs it was seen; 0: not found by running
    count: int = 1  # over all runs
    first_run: str = ""  # the first of them, in words
    instead: str = ""  # what to do in this very place; "": what the kind says

    @property
    def severity(self) -> Severity:
        return advice(self.kind).severity

    @property
    def remedy(self) -> str:
        return self.instead or advice(self.kind).remedy

    def as_dict(self, lines: Sequence[str]) -> dict[str, Any]:
        """Everything, with the lines of the source, and what the kind means."""

        def source(line: int) -> str | None:
            return lines[line - 1] if 1 <= line <= len(lines) else None

        return {
            "kind": self.kind,
            "severity": self.severity,
            "message": self.message,
            "line": self.line or None,
            "column": self.column or None,
            "source": source(self.line),
            "where": self.where or None,
            "places": [
                {"line": each.line or None, "label": each.label, "source": source(each.line)}
                for each in self.places
            ],
            "runs_seen": self.runs or None,
            "count": self.count,
            "first_run": self.first_run or None,
            "meaning": advice(self.kind).meaning,
            "help": self.remedy,
        }


def from_report(report: EmulatorReport, *, run: str, shift: int = 0) -> Finding:
    """One report of one run; `shift` is added to every line."""
    message = _LINE.sub(lambda match: f"line {int(match[1]) + shift}", " ".join(report.message.split()))
    block = _BLOCK.match(message)
    headline, *groups = _GROUPS.split(message[block.end() :] if block else message)
    finding = Finding(
        kind=report.kind,
        message=headline,
        line=report.line + shift if report.line else 0,
        where=block[1] if block else "",
        runs=1,
        count=report.count,
        first_run=run,
    )
    known, groups_seen = advice(report.kind), tuple(_group(group) for group in groups)
    called = tuple(line + shift for line in report.callers)
    if not report.line2:
        return replace(finding, places=(*groups_seen, *_calls(called)))
    line2, called2 = report.line2 + shift, tuple(line + shift for line in report.callers2)
    if known.mended_at_second:
        shown = Place(finding.line, _NOTICED)
        places = (shown, *_calls(called, _NOTICED), *groups_seen, *_calls(called2))
        return replace(finding, line=line2, where=known.second, places=places)
    places = (Place(line2, known.second), *_calls(called2, known.second), *groups_seen, *_calls(called))
    return replace(finding, places=places)


def _calls(lines: Sequence[int], of: str = "") -> tuple[Place, ...]:
    """The calls that led to a place, innermost first."""
    return tuple(Place(line, f"{of}, called from here" if of else "called from here") for line in lines)


def _group(text: str) -> Place:
    """ "threads 0-31: bar_sync at line 51 (...)" as a place."""
    match = _LINE.search(text)
    label = re.sub(r",? (?:at|from) line \d+|: line \d+", "", text)
    return Place(int(match[1]) if match else 0, label)


def merge(runs: Iterable[Sequence[Finding]]) -> tuple[Finding, ...]:
    """One finding for each kind and line, in the order in which they were first seen; errors come first."""
    merged: dict[tuple[str, int], Finding] = {}
    for findings in runs:
        seen = set()
        for finding in findings:
            key = _mirrored_key(finding, merged) or (finding.kind, finding.line)
            known = merged.get(key)
            merged[key] = finding if known is None else _join_findings(known, finding, again=key not in seen)
            seen.add(key)
    return tuple(sorted(merged.values(), key=lambda finding: finding.severity != "error"))


def _mirrored_key(finding: Finding, merged: Mapping[tuple[str, int], Finding]) -> tuple[str, int] | None:
    """The key of the finding whose two places are this one's, the other way round."""
    if finding.kind not in _SYMMETRIC or (finding.kind, finding.line) in merged:
        return None
    for place in finding.places:
        known = merged.get((finding.kind, place.line))
        if known and finding.line in {other.line for other in known.places}:
            return finding.kind, place.line
    return None


def _join_findings(known: Finding, more: Finding, *, again: bool) -> Finding:
    """One finding of both. `again`: the second one comes from another run."""
    # In a mirrored finding the other's second place is this one's first.
    lines = {place.line for place in known.places} | ({known.line} if more.line != known.line else set())
    # What each group waits for differs from run to run: the first run's words stand for all.
    fresh = [place for place in more.places if place.line not in lines and place.label == _second(known)]
    return replace(
        known,
        places=(known.places + tuple(fresh))[: max(_MOST_PLACES, len(known.places))],
        runs=known.runs + (more.runs if again else 0),
        count=known.count + more.count,
    )


def _second(finding: Finding) -> str:
    known = advice(finding.kind)
    return _NOTICED if known.mended_at_second else known.second


def slow_accesses(sites: Iterable[Site], *, shift: int = 0) -> tuple[Finding, ...]:
    """Lines with bank conflicts or uncoalesced accesses that count, the worst first."""
    totals: dict[tuple[int, str], Site] = {}
    for site in sites:
        known = totals.get((site.line, site.op))
        totals[site.line, site.op] = site if known is None else _add_sites(known, site)
    findings: list[Finding] = []
    for kind, is_shared in (("bank-conflict", True), ("uncoalesced", False)):
        group = [site for site in totals.values() if (site.op in _SHARED_OPS) == is_shared]
        moved = sum(site.actual for site in group)
        slow = [site for site in group if site.actual - site.ideal > _SLOW_SHARE * moved]
        slow.sort(key=lambda site: site.ideal - site.actual)
        findings += [_slow(kind, site, moved, shift) for site in slow]
    return tuple(findings)


def _add_sites(a: Site, b: Site) -> Site:
    return Site(a.line, a.op, a.requests + b.requests, a.actual + b.actual, a.ideal + b.ideal)


def _slow(kind: str, site: Site, moved: int, shift: int) -> Finding:
    unit = "wavefronts" if kind == "bank-conflict" else "sectors"
    message = (
        f"{site.op} takes {site.actual / site.ideal:.1f} times the {unit} that its bytes need "
        f"({site.actual:,} instead of {site.ideal:,} for {site.requests:,} warp instructions; "
        f"the excess is {(site.actual - site.ideal) / moved:.0%} of all {unit} here)"
    )
    return Finding(kind, message, line=site.line + shift)
