"""Shows a claim and what was found beside one another, as JSON or text. Decides nothing."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from rich.console import Console
from rich.markup import escape

from evoflash.app.verify.claim import Claim, ClaimedBuild
from evoflash.app.verify.finding import How, Reproduction
from evoflash.app.verify.verdict import ClaimVerdict, interval_of
from evoflash.evaluation import Basis, Build
from evoflash.views.tables import Column, print_table

_SHORT = 26  # characters of a cell: two of them and a label fit 60 columns


def print_verdict(claim: Claim, found: Reproduction, verdict: ClaimVerdict, console: Console) -> None:
    """A table of the two sides, then the answer with its reasons, each in a line."""
    rows = [row for row in _rows(claim, found) if row[1] or row[2]]
    columns = [
        Column(name, tuple(cells), is_number=False, wraps_at=0 if not name else _SHORT)
        for name, cells in zip(("", "claimed", "here"), zip(*rows, strict=True), strict=True)
    ]
    print_table(columns, console, title=f"{claim.problem} on {claim.gpu}, by {claim.origin}")
    console.print()
    for line in lines(verdict):
        console.print(escape(line), highlight=False)


def lines(verdict: ClaimVerdict) -> list[str]:
    """`confirmed`, or `not confirmed: ...`, and notes."""
    said = [f"{verdict.answer}: {reason}" for reason in verdict.reasons] or [str(verdict.answer)]
    return [*said, *(f"note: {note}" for note in verdict.notes)]


def _rows(claim: Claim, found: Reproduction) -> Iterator[tuple[str, str, str]]:
    """A label, what is claimed, and what is here."""
    here, genome = found.evaluation, found.identity.genome
    yield "kernel", claim.genome_id, "edited" if claim.edited else genome.id if genome else ""
    yield "status", claim.status, f"{here.status}, {found.how}" if here else str(found.how)
    yield "time", _claimed_time(claim), _time_here(found)
    made = here.builds if here else ()
    for label, column in (("registers", "registers"), ("spilled", "spill_bytes")):
        yield label, _most(claim.builds, column), _most(made, column)
    yield "GPU", claim.device or claim.gpu, found.machine.device_name if found.machine else "none"
    yield "driver", _cuda(claim.driver), _cuda(found.machine.driver if found.machine else "")


def _most(builds: Sequence[ClaimedBuild] | Sequence[Build], column: str) -> str:
    known = [count for build in builds if (count := getattr(build, column)) is not None]
    return str(max(known)) if known else ""


def _cuda(driver: str) -> str:
    return f"CUDA {driver}" if driver else ""


def _claimed_time(claim: Claim) -> str:
    if claim.time_us is None:
        return ""
    return (
        f"~{claim.time_us:.4g} us ESTIMATED" if claim.basis is Basis.ESTIMATED else f"{claim.time_us:.4g} us"
    )


def _time_here(found: Reproduction) -> str:
    if found.evaluation is None or found.evaluation.score_us is None:
        return "not timed"
    us = f"{found.evaluation.score_us:.4g} us"
    if found.how is How.ESTIMATED:
        return f"~{us} ESTIMATED"
    known = interval_of(found.evaluation)
    return f"{us} [{known.low_us:.4g}, {known.high_us:.4g}]" if known else us


def as_json(claim: Claim, found: Reproduction, verdict: ClaimVerdict) -> str:
    """One object: the verdict, the claim and what was found; times in us."""
    here, genome = found.evaluation, found.identity.genome
    known = interval_of(here) if here else None
    table = {
        "verdict": str(verdict.answer),
        "reasons": list(verdict.reasons),
        "notes": list(verdict.notes),
        "claimed": {**asdict(claim), "edited": claim.edited is not None},
        "found": {
            "genome_id": genome.id if genome and not claim.edited else None,
            "how": str(found.how),
            "status": str(here.status) if here else None,
            "rung": str(here.rung) if here else None,
            "reason": here.reason if here else None,
            "time_us": here.score_us if here else None,
            "interval_us": [known.low_us, known.high_us] if known else None,
            "registers": [build.registers for build in here.builds] if here else None,
            "spill_bytes": [build.spill_bytes for build in here.builds] if here else None,
            "rel_l2": max((v.rel_l2 for v in here.verdicts), default=None) if here else None,
            "device": found.machine.device_name if found.machine else None,
            "driver": found.machine.driver if found.machine else None,
        },
    }
    return json.dumps(table, indent=2)
