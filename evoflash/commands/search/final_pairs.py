"""The winner's pairs of a final timing as text beside its run, and back. Compares nothing.

Times are stored as such, and the interval of a pair cannot be had from them: it goes by rounds.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from evoflash.errors import StoreError
from evoflash.evaluation import FINAL
from evoflash.timing.pair import Comparison

if TYPE_CHECKING:  # it loads what the GPU needs
    from evoflash.gpu_process.finals import FinalReport

NOTE = "final_pairs"  # the key in a run's environment


def as_note(report: "FinalReport", winner: str) -> str:
    """The pairs that the winner is one of, in the protocol that ranks, the winner first in each."""
    pairs = [pair for pair in report.comparisons if winner in (pair.first, pair.second)]
    ours = [pair if pair.first == winner else mirrored(pair) for pair in pairs if pair.protocol in FINAL]
    return json.dumps([asdict(pair) for pair in ours], separators=(",", ":"))


def mirrored(pair: Comparison) -> Comparison:
    """The second over the first."""
    low, high = 1 / pair.high, 1 / pair.low
    return replace(pair, first=pair.second, second=pair.first, ratio=1 / pair.ratio, low=low, high=high)


def noted(environment: Mapping[str, str]) -> tuple[Comparison, ...]:
    """The pairs of `as_note`; none where nothing was noted. StoreError where it cannot be read."""
    try:
        return tuple(Comparison(**pair) for pair in json.loads(environment.get(NOTE, "[]")))
    except (ValueError, TypeError):
        raise StoreError(f"the run's {NOTE} cannot be read: `evoflash db check` looks into it.") from None
