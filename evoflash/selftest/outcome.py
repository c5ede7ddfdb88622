"""What became of each fraud and each control, as records: rejected as named, or not. Runs nothing."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from evoflash.evaluation import Rung

# "wrong" among a fraud's words stands for any threshold of validator.judge.
_GATES = r"\b(non-finite in|honest in|max_over_rms in|lse in|rel_l2 )"


class End(StrEnum):
    """How it ended."""

    REJECTED = "rejected"  # a fraud, where and as it should be
    ACCEPTED = "accepted"  # a control
    SKIPPED = "skipped"  # it cannot be tried here
    SLIPPED = "SLIPPED THROUGH"
    ELSEWHERE = "NOT AS NAMED"  # rejected, but by another rung or for another reason
    REFUSED = "WRONGLY REJECTED"  # a control
    BROKEN = "BROKEN"  # the corpus does not fit its kernel, or the machine failed: nothing was shown
    NOT_RUN = "not run"  # the time was up


GOOD = frozenset({End.REJECTED, End.ACCEPTED, End.SKIPPED})


@dataclass(frozen=True, slots=True)
class Expected:
    """Where a fraud must be rejected and with which words in the reason; or why it is not tried there.

    Without a rung it is a control: nothing may complain. `every`: each of the rungs has to reject it by
    itself; else one of them.
    """

    rungs: Mapping[Rung, str] = field(default_factory=dict)
    every: bool = True
    skip: str = ""

    def fits(self, rung: Rung, reason: str) -> bool:
        """Whether that rung's reason is one that rejects the fraud for what it is."""
        words = self.rungs.get(rung)
        return words is not None and re.search(_GATES if words == "wrong" else words, reason) is not None


@dataclass(frozen=True, slots=True)
class Outcome:
    """One fraud or control in one place."""

    name: str
    place: str  # "emulator", "GPU", "NumPy", "records"
    end: End
    detail: str  # the rungs that complained, and their reasons

    @property
    def is_good(self) -> bool:
        return self.end in GOOD


def outcome(name: str, place: str, expected: Expected, said: Mapping[Rung, str]) -> Outcome:
    """From each rung's complaint, "" where it accepted."""
    complaints = {rung: reason for rung, reason in said.items() if reason}
    told = "; ".join(f"{rung}: {reason}" for rung, reason in complaints.items())
    return Outcome(name, place, _end(expected, complaints), told or "no rung complained")


def _end(expected: Expected, complaints: Mapping[Rung, str]) -> End:
    if not expected.rungs:
        return End.REFUSED if complaints else End.ACCEPTED
    if not complaints or (expected.every and expected.rungs.keys() - complaints.keys()):
        return End.SLIPPED
    return End.REJECTED if all(expected.fits(*each) for each in complaints.items()) else End.ELSEWHERE
