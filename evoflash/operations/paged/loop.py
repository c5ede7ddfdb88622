"""How a kernel's walk over the keys cuts paged attention's work, for the performance model.

Measures nothing.
"""

from evoflash.operation import Loop, Work
from evoflash.operations.list_shares import work_of_shares
from evoflash.operations.paged.workload import PagedWorkload


def work(workload: PagedWorkload, loop: Loop) -> Work:
    """The steps of each CTA: of a sequence's visible keys for one head of K, or of its share where several
    share them; or its share of all steps, where CTAs share a list of them. CTAs of a cluster divide each
    step. A sequence without keys takes a step, or a CTA, all the same.
    """
    w, found, step = workload, list[int](), loop.keys * loop.cluster
    for rows, keys in w.sequences:
        blocks = max(1, -(-rows * w.gqa_ratio // max(1, loop.rows)))
        first = w.first_key(rows, keys)
        steps = -(-keys // step) - min(first, keys) // step
        share = -(-steps // loop.splits)
        shares = [min(share, max(0, steps - split * share)) for split in range(loop.splits)]
        found += shares * blocks
    if loop.most_ctas:
        live_rows = min(loop.rows, w.gqa_ratio * max((rows for rows, _ in w.sequences), default=1))
        return work_of_shares(found, w.kv_heads, loop, part_bytes=4 * live_rows * (w.head_dim + 2))
    return Work(tuple(found) * loop.cluster, copies=w.kv_heads, batch=1)


def exponentials(workload: PagedWorkload) -> int:
    """One for each pair of a query and a key that it sees, in every head."""
    return workload.heads * sum(workload.visible_pairs(*each) for each in workload.sequences)
