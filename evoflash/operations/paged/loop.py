"""How a kernel's walk over the keys cuts paged attention's work, for the performance model.

Measures nothing.
"""

from collections.abc import Mapping

from evoflash.operation import Loop, Work
from evoflash.operations.paged.workload import PagedWorkload


def work(workload: PagedWorkload, loop: Loop) -> Work:
    """The steps of each CTA: of a sequence's visible keys for one head of K, or of its share where several
    share them; or its share of all steps, where CTAs share a list of them. A sequence without keys takes a
    step, or a CTA, all the same.
    """
    w, found = workload, list[int]()
    for rows, keys in w.sequences:
        blocks = max(1, -(-rows * w.gqa_ratio // max(1, loop.rows)))
        first = w.first_key(rows, keys)
        steps = -(-keys // loop.keys) - min(first, keys) // loop.keys
        share = -(-steps // loop.splits)
        shares = [min(share, max(0, steps - split * share)) for split in range(loop.splits)]
        found += shares * blocks
    if loop.most_ctas:
        return _shares(found, w.kv_heads, loop)
    return Work(tuple(found), copies=w.kv_heads, batch=1)


def _shares(steps: list[int], copies: int, loop: Loop) -> Work:
    """Equal shares, of `grain` steps that stay together, of the steps of all."""
    items = copies * sum(max(1, -(-each // loop.grain)) for each in steps)
    total = copies * sum(max(1, each) for each in steps)
    ctas = min(loop.most_ctas, items)
    share, longer = divmod(items, ctas)
    of_one = [-(-count * total // items) for count in (share + 1, share)]
    return Work((of_one[0],) * longer + (of_one[1],) * (ctas - longer), copies=1, batch=1)


def exponentials(workload: PagedWorkload) -> int:
    """One for each pair of a query and a key that it sees, in every head."""
    return workload.heads * sum(workload.visible_pairs(*each) for each in workload.sequences)


def consumers(counts: Mapping[str, float], workload: PagedWorkload, loop: Loop) -> int:
    """No warpgroups whose products are a chain of their own: memory bounds decoding, on wgmma too."""
    return 0
