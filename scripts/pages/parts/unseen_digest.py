"""The README's words on docs/unseen.md: the newest measurements of several problems.

Written into the README by scripts/pages/readme.py. Measures nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from scripts.pages import unseen
from scripts.pages.parts.without_archive import NEAR, near, ratios
from scripts.peers.ratios import least, mean

_FEWEST = 5  # problems, for a mean that says something


def digest(records: Sequence[Mapping[str, Any]], alone: Sequence[Mapping[str, Any]]) -> str:
    """Two sentences: the GPU, what a search was given, the mean and the least ratio; what is found without
    the archive, by the newest record.
    """
    several = [record for record in records if len(unseen.untuned(record)) >= _FEWEST]
    newest = max(several, key=lambda record: str(record["date"]))
    lines = unseen.untuned(newest)
    lowest = least(lines).states[0].peers[0].ratio
    met = {"FA3", "FA4"} <= set(unseen.libraries(newest))
    rivals = ", FlashAttention-3 and -4 among them" if met else ""
    return (
        f"Searches of {len(lines)} problems that nobody tuned, {unseen.spent(newest)} each on an "
        f"{newest['gpu']}, ended {mean(lines):.2f} times as fast as the fastest library{rivals} (geometric "
        f"mean; the least {lowest:.2f}). {_alone(max(alone, key=lambda record: str(record['date'])))}\n"
    )


def _alone(record: Mapping[str, Any]) -> str:
    found = ratios(record)
    return (
        f"Without the archive and with one seed a family, {near(found)} of {len(found)} searches came within "
        f"{NEAR - 1:.0%} of what long work by hand had found."
    )
