"""How a kernel's loop over the keys cuts attention's work, for the performance model. Measures nothing."""

from collections.abc import Sequence
from dataclasses import replace

from evoflash.operation import Loop, Work
from evoflash.operations.attention.workload import AttentionWorkload


def work(workload: AttentionWorkload, loop: Loop) -> Work:
    """The steps of each CTA, of so many packs of heads; or its share of all steps, where CTAs share a list of
    them and those of a cluster divide each.
    """
    heads = workload.batch * workload.heads // loop.pack
    if loop.shares:
        units = -(-loop.pack // loop.rows)  # of a query's rows
        steps = kv_tiles(workload, max(1, loop.rows // loop.pack), loop.keys * loop.cluster)
        rows = min(loop.rows, loop.pack * workload.seq_q)
        # Each batch element has CTAs of its own, as decode_dense's grid says.
        batch, teams = workload.batch, max(1, loop.most_ctas // loop.cluster)
        of_batch = max(teams // batch, -(-(teams - teams // 12) // batch))
        own = replace(loop, most_ctas=of_batch * loop.cluster)
        part_bytes = 4 * rows * (workload.head_dim + 2)
        shared = work_of_shares(steps * units, heads // batch, own, part_bytes=part_bytes)
        return replace(shared, copies=batch)
    part_bytes = 4 * loop.rows * workload.head_dim
    return Work(steps_of(workload, loop), heads, workload.batch, part_bytes=part_bytes)


def exponentials(workload: AttentionWorkload) -> int:
    """One for each pair of a query and a key that it sees, in every head."""
    return workload.batch * workload.heads * workload.visible_pairs


def kv_tiles(workload: AttentionWorkload, rows: int, keys: int) -> tuple[int, ...]:
    """Steps that each query block of one head takes, in launch order (causal: last block first)."""
    blocks = -(-workload.seq_q // rows)
    if not workload.causal:
        return (-(-workload.seq_kv // keys),) * blocks
    diagonal = workload.seq_kv - workload.seq_q
    ends = (min((i + 1) * rows, workload.seq_q) + diagonal for i in reversed(range(blocks)))
    return tuple(-(-max(0, end) // keys) for end in ends)


def steps_of(workload: AttentionWorkload, loop: Loop) -> tuple[int, ...]:
    """Steps of each CTA of one head, or pack of heads: those of its query block, or its share of them.

    A grid has whole clusters: their CTAs without a query row walk the tiles all the same.
    """
    rows = max(1, loop.rows * loop.cluster // loop.pack)
    clusters = kv_tiles(workload, rows, loop.keys)
    blocks = tuple(steps for steps in clusters for _ in range(loop.cluster))
    if loop.splits == 1:
        return blocks
    shares = ((-(-steps // loop.splits), steps) for steps in blocks)
    return tuple(
        min(share, max(0, steps - split * share)) for share, steps in shares for split in range(loop.splits)
    )


def work_of_shares(steps: Sequence[int], copies: int, loop: Loop, *, part_bytes: int) -> Work:
    """Where CTAs have equal shares of a list of steps, on pages too: of `grain` steps that stay together."""
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
