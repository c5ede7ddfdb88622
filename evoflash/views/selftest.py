"""Shows what the self-test found, as JSON or lines. Runs nothing."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from evoflash.trust.selftest.corpus import FraudResult
from evoflash.trust.selftest.run import SelfTest

_WIDTH = 150  # of a detail in a line


def line(outcome: FraudResult) -> str:
    """One outcome."""
    return f"{outcome.end:16} {outcome.place:8} {outcome.name:38} {outcome.detail[:_WIDTH]}"


def totals(found: SelfTest) -> str:
    """The last lines: what is not as it should be, again, and how many there were of each."""
    bad = [line(each) for each in found.outcomes if not each.is_good]
    counts = ", ".join(f"{count} {end}" for end, count in _counts(found.outcomes).items())
    on = found.gpu or "no GPU here: its half was not tried"
    cut = ["stopped by Ctrl-C: not all were tried"] if found.interrupted else []
    return "\n".join([*bad, *cut, f"{counts}; in {found.seconds:.0f} s, {on}"])


def _counts(outcomes: Sequence[FraudResult]) -> dict[str, int]:
    return dict(Counter(each.end.value for each in outcomes))


def as_json(found: SelfTest) -> str:
    """Everything, with the whole reasons."""
    return json.dumps({"good": found.is_good, "counts": _counts(found.outcomes), **asdict(found)}, indent=2)
