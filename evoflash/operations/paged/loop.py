"""How a kernel's walk over the keys cuts paged attention's work, for the performance model.

Measures nothing.
"""

from collections.abc import Mapping

from evoflash.operation import Loop, Work
from evoflash.operations.paged.workload import PagedWorkload


def work(workload: PagedWorkload, loop: Loop) -> Work:
    """The steps of each CTA: of a sequence's visible keys for one head of K, or of its share where several
    share them. A sequence without keys takes a CTA all the same.
    """
    w, found = workload, list[int]()
    for rows, keys in w.sequences:
        blocks = max(1, -(-rows * w.gqa_ratio // max(1, loop.rows)))
        first = w.first_key(rows, keys)
        steps = -(-keys // loop.keys) - min(first, keys) // loop.keys
        share = -(-steps // loop.splits)
        shares = [min(share, max(0, steps - split * share)) for split in range(loop.splits)]
        found += shares * blocks
    return Work(tuple(found), copies=w.kv_heads, batch=1)


def exponentials(workload: PagedWorkload) -> int:
    """One for each pair of a query and a key that it sees, in every head."""
    return workload.heads * sum(workload.visible_pairs(*each) for each in workload.sequences)


def consumers(counts: Mapping[str, float], workload: PagedWorkload, loop: Loop) -> int:
    """Warpgroups of a CTA that compute; 0: there is no family on wgmma."""
    return 0
