"""The attention shapes that kernels are checked on, every candidate's and the hidden ones; places in them.

Places are the keys and rows that test inputs single out. The pre-flight's shapes are made from a genome:
preflight_runs.py. Runs and judges nothing.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evoflash.attention.workload import CompileKey, Workload

# Shapes that finalists meet first, drawn when they are promoted: the longest seq_q and seq_kv, and the most
# batches and key/value heads. References cost the product, and the test inputs are many.
_HIDDEN = ((300, 300, 3, 3), (400, 700, 2, 3), (60, 3000, 1, 2), (1500, 90, 1, 3), (1, 5000, 3, 1))
# (seq_q, seq_kv), cheapest first; the same for every genome, so that references are computed once a run.
# The last one fills every ring of the families' deepest pipelines twice, with a tail.
_CHECK_LENGTHS = ((1, 1), (3, 40), (113, 203), (250, 129), (1, 239), (131, 1157))
# As many queries as keys, over several tiles, and whole blocks of 64 and of 128 rows.
_SQUARE = 256
# An odd number of tiles, more than 40, of 32, 64 or 128 keys alike, the last one with a tail.
_LONG = (5, 5391)
# More heads than a warp has lanes, eight key/value heads or more, and a batch that divides no GPU's number of
# SMs: with these rows more pieces of work than there are SMs.
_MANY_HEADS, _MANY_GROUPS, _ODD_BATCH, _MANY_LENGTHS = 33, 8, 5, (20, 70)
# More heads than seven bits count, and more queries than ten: what goes by such a number shows nowhere else.
_MOST_HEADS, _FEW_LENGTHS, _TALL = 130, (3, 270), (1030, 40)


def check_workloads(keys: Sequence[CompileKey]) -> tuple[Workload, ...]:
    """What every candidate is checked on, cheapest first. Two batches and heads: a mixed-up stride shows."""
    ordinary = tuple(key.workload(2, 2, *lengths) for lengths in _CHECK_LENGTHS for key in keys)
    special = tuple(
        shape
        for key in keys
        for shape in (
            key.workload(1, 1, *_LONG),
            key.workload(_ODD_BATCH, _many_groups(key), *_MANY_LENGTHS),
            key.workload(1, -(-_MOST_HEADS // key.gqa_ratio), *_FEW_LENGTHS),
            key.workload(1, 1, *_TALL),
            key.workload(2, 1, _SQUARE, _SQUARE),
        )
    )
    return ordinary + special


def _many_groups(key: CompileKey) -> int:
    return max(_MANY_GROUPS, -(-_MANY_HEADS // key.gqa_ratio))


def hidden_workloads(keys: Sequence[CompileKey], *, seed: int) -> tuple[Workload, ...]:
    """What finalists are checked on before they are promoted, of every kind one for each compile key."""
    rng = np.random.default_rng(seed)
    return tuple(_hidden(key, most, rng) for most in _HIDDEN for key in keys)


def _hidden(key: CompileKey, most: tuple[int, int, int, int], rng: np.random.Generator) -> Workload:
    # From half of the most on: a kind that is for its length must be long.
    seq_q, seq_kv, batch, kv_heads = (int(rng.integers(-(-x // 2), x + 1)) for x in most)
    return key.workload(batch, kv_heads, seq_q, seq_kv)


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
