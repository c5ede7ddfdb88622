"""The tensors and the argument list of an attention call: one for emulator, GPU and exported launcher."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from evoflash.attention.workload import Workload
from evoflash.operation import Output, Role, TensorSpec
from evoflash.validation.bits import Bits

Strides = tuple[int, int, int]  # batch, head, row; in elements; the last dimension is contiguous

_AXES = ("b", "h", "row", "col"), ("batch", "heads", "rows", "columns")
_AXES_OF_LSE = _AXES[0][:3], _AXES[1][:3]
# (Order of the axes batch, heads, rows, columns in memory, elements behind each row) of a caller's strided
# tensors. No two have the same strides: a kernel that takes one's for another's reads or writes elsewhere.
_STRIDED: Mapping[str, tuple[tuple[int, ...], int]] = {
    "Q": ((0, 2, 1, 3), 16),  # as a program has it that keeps the heads of a row together
    "K": ((0, 1, 2, 3), 32),
    "V": ((1, 0, 2, 3), 48),
    "O": ((0, 1, 2, 3), 64),
}


def tensors(workload: Workload) -> tuple[TensorSpec, ...]:
    """Q, K, V, O and LSE, which is a float32 tensor (batch, heads, seq_q) and may be left out."""
    w = workload
    query, key = (w.batch, w.heads, w.seq_q, w.head_dim), (w.batch, w.kv_heads, w.seq_kv, w.head_dim)
    return (
        _tensor("Q", "input", query, w.dtype),
        _tensor("K", "input", key, w.dtype),
        _tensor("V", "input", key, w.dtype),
        _tensor("O", "rows", query, w.dtype),
        TensorSpec("LSE", "numbers", query[:3], *_AXES_OF_LSE, "fp32", is_optional=True),
    )


def _tensor(name: str, role: Role, shape: tuple[int, ...], dtype: str) -> TensorSpec:
    spread, gap = _STRIDED[name]
    return TensorSpec(name, role, shape, *_AXES, dtype, spread=spread, gap=gap)


def output(out: Bits, lse: NDArray[np.float32] | None = None) -> Output:
    """O's bits (batch, heads, seq_q, head_dim) and LSE, missing where a kernel was asked for none."""
    return Output({"O": out} if lse is None else {"O": out, "LSE": lse})


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


def call_arguments(
    workload: Workload,
    addresses: Mapping[str, int],
    strides: Mapping[str, Sequence[int]],
    *,
    workspace: int = 0,
) -> tuple[np.generic, ...]:
    """As arguments(), of addresses and strides by tensor name."""
    q, k, v, o, lse = (addresses[name] for name in ("Q", "K", "V", "O", "LSE"))
    by_tensor = [(s[0], s[1], s[2]) for s in (strides[name] for name in ("Q", "K", "V", "O"))]
    given = (by_tensor[0], by_tensor[1], by_tensor[2], by_tensor[3])
    return arguments(workload, (q, k, v, o, lse), given, workspace=workspace)


def arguments(
    workload: Workload,
    pointers: tuple[int, int, int, int, int],
    strides: tuple[Strides, Strides, Strides, Strides] | None = None,
    *,
    workspace: int = 0,
) -> tuple[np.generic, ...]:
    """NumPy scalars in launch order, for pointers (Q, K, V, O, LSE); LSE may be 0 (not wanted). A kernel's
    tensor maps, which emulator and driver make each in their own way, stand before these.

    `workspace` points at global scratch; 0: the kernel takes no such argument.
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
