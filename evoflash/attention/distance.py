"""How far apart two attention workloads are, for an archive of kernels; knows no kernel."""

import math

from evoflash.attention.workload import Workload

# What a workload is further away for, each by the octaves between the two: of the rows that fill the GPU, of
# the keys that the loop walks over, of query heads a key/value head; nearly another kernel: of the head dim.
_ROWS, _KEYS, _GROUP, _HEAD_DIM = 0.5, 0.5, 0.5, 4.0
_MASK, _DTYPE, _ACCUMULATOR = 1.0, 0.5, 1.0  # where they differ


def distance(a: Workload, b: Workload) -> float:
    """0 for the same workload. Rows are batch * heads * seq_q, since they decide how full the GPU is; keys
    are seq_kv.
    """
    return (
        _ROWS * _octaves(a.batch * a.heads * a.seq_q, b.batch * b.heads * b.seq_q)
        + _KEYS * _octaves(a.seq_kv, b.seq_kv)
        + _GROUP * _octaves(a.gqa_ratio, b.gqa_ratio)
        + _HEAD_DIM * _octaves(a.head_dim, b.head_dim)
        + _MASK * (a.causal != b.causal)
        + _DTYPE * (a.dtype != b.dtype)
        + _ACCUMULATOR * (a.accumulate != b.accumulate)
    )


def _octaves(a: int, b: int) -> float:
    return abs(math.log2(a / b))
