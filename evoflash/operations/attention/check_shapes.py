"""The shapes that attention kernels are checked on, the same for all or drawn from a seed. Judges nothing.

Every candidate is checked on some, and the best ones on hidden ones too; the pre-flight's, which go by a
kernel's own tiles, stand in preflight_runs.py.
"""

from collections.abc import Sequence

import numpy as np

from evoflash.operations.attention.workload import AttentionKey, AttentionWorkload

# Shapes that finalists meet first, drawn when they are promoted: the longest seq_q and seq_kv, and the most
# batches and key/value heads. References cost the product, and the test inputs are many.
_HIDDEN = ((300, 300, 3, 3), (400, 700, 2, 3), (60, 3000, 1, 2), (1500, 90, 1, 3), (1, 5000, 3, 1))
# More query rows, over all heads, than 16 bits count, and one key; and more batches than 8 bits count. In the
# emulator kernels whose blocks have few rows, and large clusters, take up to half a minute for them, on a GPU
# no time: where there is one, it alone has them then (EmulatedRun.is_left_to_gpu).
MANY_ROWS, MANY_ROWS_HEADS, MANY_BATCHES = 4100, 16, 257
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
# The first number n whose reciprocal in fp32, times n, is below 1: who divides so by the number of heads
# finds another batch. 47, 55, 61, 82 and 83 are others. Two batches, and two query blocks of the usual sizes;
# fewer rows where many query heads share one of these: all check shapes together should fit into one batch on
# the device (gpu/process/cache.py), for launch by launch one of these takes seconds.
UNEVEN_HEADS, _TWO_BLOCKS, _UNEVEN_ROWS = 41, (130, 9), 520


def check_workloads(keys: Sequence[AttentionKey]) -> tuple[AttentionWorkload, ...]:
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
            key.workload(2, UNEVEN_HEADS, *_uneven_lengths(key)),
        )
    )
    return ordinary + special


def _uneven_lengths(key: AttentionKey) -> tuple[int, int]:
    rows, keys = _TWO_BLOCKS
    return max(keys, min(rows, _UNEVEN_ROWS // key.gqa_ratio)), keys


def _many_groups(key: AttentionKey) -> int:
    return max(_MANY_GROUPS, -(-_MANY_HEADS // key.gqa_ratio))


def hidden_workloads(keys: Sequence[AttentionKey], *, seed: int) -> tuple[AttentionWorkload, ...]:
    """What finalists are checked on before they are promoted, of every kind one for each compile key: drawn
    shapes, one of many rows and one of many batches.
    """
    rng = np.random.default_rng(seed)
    drawn = tuple(_hidden_workload(key, most, rng) for most in _HIDDEN for key in keys)
    many_rows = tuple(
        key.workload(1, -(-MANY_ROWS_HEADS // key.gqa_ratio), MANY_ROWS + int(rng.integers(1000)), 1)
        for key in keys
    )
    many_batches = tuple(key.workload(MANY_BATCHES + int(rng.integers(100)), 1, 1, 1) for key in keys)
    return drawn + many_rows + many_batches


def _hidden_workload(
    key: AttentionKey, most: tuple[int, int, int, int], rng: np.random.Generator
) -> AttentionWorkload:
    # From half of the most on: a kind that is for its length must be long.
    seq_q, seq_kv, batch, kv_heads = (int(rng.integers(-(-x // 2), x + 1)) for x in most)
    return key.workload(batch, kv_heads, seq_q, seq_kv)
