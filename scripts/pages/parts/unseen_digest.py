"""The README's words on docs/unseen.md: the newest measurement of several problems that nobody tuned.

Written into the README by scripts/pages/readme.py. Measures nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from scripts.pages import unseen
from scripts.peers.ratios import least, mean

_FEWEST = 5  # problems, for a mean that says something


def digest(records: Sequence[Mapping[str, Any]]) -> str:
    """One sentence: the GPU, what a search was given, the mean and the least ratio."""
    several = [record for record in records if len(unseen.untuned(record)) >= _FEWEST]
    newest = max(several, key=lambda record: str(record["date"]))
    lines = unseen.untuned(newest)
    lowest = least(lines).states[0].peers[0].ratio
    without = "" if "FA3" in unseen.libraries(newest) else "; no FlashAttention-3"
    return (
        f"Searches of {len(lines)} problems that nobody tuned, {unseen.spent(newest)} each on an "
        f"{newest['gpu']}, ended {mean(lines):.2f} times as fast as the fastest library (geometric mean; "
        f"the least {lowest:.2f}{without}).\n"
    )
