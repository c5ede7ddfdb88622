"""The kernel ABI (CONTRACTS section 3): one argument list for emulator, GPU and exported launcher."""

import math

import numpy as np

from evoflash.evaluation import TensorMap, geometry
from evoflash.problem import Workload

Strides = tuple[int, int, int]  # batch, head, row; in elements; the last dimension is contiguous


def contiguous(heads: int, rows: int, head_dim: int) -> Strides:
    """Strides of a dense (batch, heads, rows, head_dim) tensor."""
    return heads * rows * head_dim, rows * head_dim, head_dim


def dense_strides(workload: Workload) -> tuple[Strides, Strides, Strides, Strides]:
    """Strides of dense Q, K, V, O."""
    query = contiguous(workload.heads, workload.seq_q, workload.head_dim)
    key = contiguous(workload.kv_heads, workload.seq_kv, workload.head_dim)
    return query, key, key, query


def scale(workload: Workload) -> float:
    """The softmax scale, 1/sqrt(head_dim)."""
    return 1.0 / math.sqrt(workload.head_dim)


def map_geometry(
    wanted: TensorMap, workload: Workload
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Dims, strides in bytes and box of a map of one of the workload's dense tensors; contiguous first."""
    w, at = workload, "QKVO".index(wanted.of)
    heads, rows = (w.kv_heads, w.seq_kv) if wanted.of in "KV" else (w.heads, w.seq_q)
    strides = [2 * stride for stride in (*dense_strides(w)[at], 1)]  # 16-bit elements
    return geometry(wanted, (w.batch, heads, rows, w.head_dim), strides)


def arguments(
    workload: Workload,
    pointers: tuple[int, int, int, int, int],
    strides: tuple[Strides, Strides, Strides, Strides] | None = None,
    *,
    workspace: int = 0,
) -> tuple[np.generic, ...]:
    """NumPy scalars in launch order, for pointers (Q, K, V, O, LSE); LSE may be 0 (not wanted). A kernel's
    tensor maps, which emulator and driver make each in their own way, stand before these.

    LSE is a dense (batch, heads, seq_q) float32 tensor. `workspace` points at global scratch; 0: the kernel
    takes no such argument.
    """
    integers = (workload.seq_q, workload.seq_kv, workload.heads, workload.kv_heads)
    flat = [stride for tensor in strides or dense_strides(workload) for stride in tensor]
    return (
        *(np.uint64(pointer) for pointer in pointers),
        *(np.int32(number) for number in integers),
        *(np.int64(stride) for stride in flat),
        np.float32(scale(workload)),
        *([np.uint64(workspace)] if workspace else []),
    )
