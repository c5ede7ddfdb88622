"""Shows a claim and what was found beside one another, as text. Decides nothing."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.markup import escape

from evoflash.app.verify.claim import Claim, ClaimedBuild
from evoflash.app.verify.reproduction import How, Reproduction
from evoflash.app.verify.verdict import ClaimVerdict, Verification, interval_of
from evoflash.evaluation import Basis, Build
from evoflash.views.tables import Column, print_table

_SHORT = 26  # characters of a cell: two of them and a label fit 60 columns


def print_verdict(verification: Verification, console: Console) -> None:
    """A table of the two sides, then the answer with its reasons, each in a line."""
    claim, found = verification.claim, verification.found
    rows = [row for row in _rows(claim, found) if row[1] or row[2]]
    columns = [
        Column(name, tuple(cells), is_number=False, wraps_at=0 if not name else _SHORT)
        for name, cells in zip(("", "claimed", "here"), zip(*rows, strict=True), strict=True)
    ]
    print_table(columns, console, title=f"{claim.problem} on {claim.gpu}, by {claim.origin}")
    console.print()
    for line in lines(verification.verdict):
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
