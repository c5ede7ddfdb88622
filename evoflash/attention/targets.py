"""Which keys the rows of a test input point at, and which row does so alone. Draws no numbers of a tensor."""

import numpy as np
from numpy.typing import NDArray

from evoflash.attention.workload import Workload


def key_of_each_row(workload: Workload, rng: np.random.Generator) -> NDArray[np.intp]:
    """A key near a tile edge for each row, its newest visible one, or the first hidden one."""
    last = workload.seq_kv - 1
    multiples = np.arange(0, last + 17, 16)
    edges = np.unique(np.concatenate([multiples - 1, multiples, multiples + 1, [last]]).clip(0, last))
    targets = _one_each(edges, workload.seq_q, rng)
    if workload.causal:
        newest = np.arange(workload.seq_q) + workload.seq_kv - workload.seq_q
        visible = rng.integers(0, newest.clip(0) + 1)  # a target beyond the mask would say nothing
        targets = np.where(targets <= newest, targets, visible)
        kind = rng.integers(0, 3, workload.seq_q)
        targets = np.select([kind == 0, kind == 1], [newest, newest + 1], targets)
    return targets.clip(0, last)


def _one_each(edges: NDArray[np.intp], rows: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """An edge for each row: all of them, or as many as there are rows, the last key among these."""
    if rows >= len(edges):
        return edges[rng.permutation(rows) % len(edges)]
    chosen = rng.permutation(edges)[:rows]
    if rows > 1 and edges[-1] not in chosen:
        chosen[rng.integers(rows)] = edges[-1]
    return chosen


def late_row(rows: int, rng: np.random.Generator, *, upper: bool) -> int:
    """One of the last quarter of the rows, in that half of 16 rows if there is one."""
    late = np.arange(rows - max(1, rows // 4), rows)
    wanted = late[(late % 16 >= 8) == upper]
    return int(rng.choice(wanted if len(wanted) else late))
