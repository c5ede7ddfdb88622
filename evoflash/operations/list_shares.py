"""How CTAs that have equal shares of a list of steps cut the work, for the performance model of attention.

Measures nothing.
"""

from collections.abc import Sequence

from evoflash.operation import Loop, Work


def work_of_shares(steps: Sequence[int], copies: int, loop: Loop, *, part_bytes: int) -> Work:
    """Equal shares, of `grain` steps that stay together, of the steps of all."""
    of_each = [max(1, -(-each // loop.grain)) for each in steps]
    items = copies * sum(of_each)
    total = copies * sum(max(1, each) for each in steps)
    ctas = min(max(1, loop.most_ctas // loop.cluster), items)  # or clusters
    share, longer = divmod(items, ctas)
    of_one = [-(-count * total // items) for count in (share + 1, share)]
    most = max(of_each)
    # Where shares begin in the midst of what is shared, one more CTA has a part of it.
    is_even = not longer and min(of_each) == most and not (most % share and share % most)
    parts = -(-most // share) if is_even else min(most, ctas, (most - 1) * ctas // items + 2)
    return Work(
        ((of_one[0],) * longer + (of_one[1],) * (ctas - longer)) * loop.cluster,
        copies=1,
        batch=1,
        parts=parts,
        part_bytes=part_bytes,
    )
