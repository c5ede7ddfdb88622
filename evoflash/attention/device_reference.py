"""What attention should be at the benchmark's shape: how reference.cu's kernel is launched; runs nothing.

All rows where that takes a second at the most, else blocks of rows spread over all heads.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evoflash.attention.abi import scale
from evoflash.attention.workload import Workload
from evoflash.validation.device_reference import DeviceReference

_ROWS, _THREADS = 16, 128  # of a block
_MOST = 1 << 38  # products of a query with a key, times head_dim: 0.2 s of an H200


def blocks(workload: Workload) -> NDArray[np.int32]:
    """Blocks of 16 rows: head, counted through all batches, first row, and the rows stored before them.

    Of a workload that is too large every n-th block of a head, with another one to begin with in each.
    """
    w = workload
    work = w.batch * w.heads * w.visible_pairs * w.head_dim
    every = max(1, -(-work // _MOST))
    firsts = np.arange(0, w.seq_q, _ROWS)
    found, stored = [], 0
    for head in range(w.batch * w.heads):
        chosen = firsts[head % min(every, len(firsts)) :: every]
        sizes = np.minimum(_ROWS, w.seq_q - chosen)
        begins = stored + np.concatenate([[0], sizes.cumsum()])
        found.append(np.stack([np.full_like(chosen, head), chosen, begins[:-1]], axis=1))
        stored = int(begins[-1])
    return np.concatenate(found).astype(np.int32)


def rows(workload: Workload) -> NDArray[np.intp]:
    """The rows that are stored, in order, counted through all heads."""
    found = [
        head * workload.seq_q + np.arange(first, min(first + _ROWS, workload.seq_q))
        for head, first, _ in blocks(workload)
    ]
    return np.concatenate(found).astype(np.intp)


def arguments(workload: Workload, addresses: Mapping[str, int]) -> tuple[np.generic, ...]:
    """Of the kernel: addresses of Q, K, V, `blocks`, `right`, `numbers` and `per_row`, then sizes."""
    w = workload
    names = ("Q", "K", "V", "blocks", "right", "numbers", "per_row")
    sizes = (w.seq_q, w.seq_kv, w.heads, w.kv_heads, w.head_dim, w.dtype == "bf16", w.causal)
    pointers = (np.uint64(addresses[name]) for name in names)
    return (*pointers, *(np.int32(size) for size in sizes), np.float32(scale(w)))


def applies(workload: Workload) -> bool:
    """Whether the kernel knows what honest arithmetic of this precision gives: not where it sums in fp16."""
    return workload.accumulate == "fp32"


REFERENCE = DeviceReference(
    source=Path(__file__).with_name("reference.cu"),
    entry="right_rows",
    threads=_THREADS,
    output="O",
    numbers="LSE",
    applies=applies,
    blocks=blocks,
    rows=rows,
    arguments=arguments,
)
