"""The tensors and the argument list of an attention call, for emulator, GPU and exported launcher alike.

PARAMETERS is what a kernel takes, FIELDS what a C program hands to an exported launcher; the launcher's text
is made of both (exporter.py). Nothing is launched here.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evoflash.numerics import Bits
from evoflash.operation import Output, Role, TensorSpec
from evoflash.operations.attention.workload import AttentionWorkload

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


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel, and what an exported launcher, in C++, passes for it."""

    name: str  # as kernels call it
    type: type[np.generic]
    source: str  # of `args` (FIELDS) or of the strides that were read from it


@dataclass(frozen=True, slots=True)
class AbiField:
    """One field of the C struct that an exported launcher takes, or an array of `count`."""

    name: str
    type: str  # of C
    about: str
    count: int = 1


STRIDED = ("Q", "K", "V", "O")
# In launch order, after the tensor maps; a kernel without global scratch has no workspace.
PARAMETERS = (
    *(Parameter(name, np.uint64, f"elements(args.{name.lower()})") for name in STRIDED),
    Parameter("LSE", np.uint64, "args.lse"),
    *(Parameter(name, np.int32, f"args.{name}") for name in ("seq_q", "seq_kv", "heads", "kv_heads")),
    *(
        Parameter(f"{name.lower()}_{axis}", np.int64, f"{name.lower()}.{axis}")
        for name in STRIDED
        for axis in ("batch", "head", "row")
    ),
    Parameter("scale", np.float32, "scale_of(args)"),
    Parameter("workspace", np.uint64, "Scratch{args.workspace}"),
)

# The struct of version 1. Fields stand where their alignment wants them, so that there is no padding.
VERSION = 1
FIELDS = (
    AbiField("size", "uint32_t", "sizeof(evoflash_attention_args) of the caller"),
    AbiField("version", "uint32_t", "EVOFLASH_ATTENTION_VERSION of the caller"),
    AbiField("q", "const void*", "(batch, heads, seq_q, head_dim), on the device as all tensors"),
    AbiField("k", "const void*", "(batch, kv_heads, seq_kv, head_dim)"),
    AbiField("v", "const void*", "(batch, kv_heads, seq_kv, head_dim)"),
    AbiField("o", "void*", "the output, (batch, heads, seq_q, head_dim)"),
    AbiField("lse", "float*", "dense (batch, heads, seq_q), natural logarithm; null: not wanted"),
    *(
        AbiField(f"{name.lower()}_strides", "int64_t", "of batch, head, row; in elements", 3)
        for name in STRIDED
    ),
    AbiField("batch", "int32_t", ""),
    AbiField("heads", "int32_t", "of q and o"),
    AbiField("kv_heads", "int32_t", "of k and v"),
    AbiField("seq_q", "int32_t", "rows of q and o"),
    AbiField("seq_kv", "int32_t", "rows of k and v"),
    AbiField("head_dim", "int32_t", ""),
    AbiField("dtype", "uint32_t", "of q, k, v, o: EVOFLASH_FP16 or EVOFLASH_BF16"),
    AbiField("mask", "uint32_t", "EVOFLASH_MASK_NONE or EVOFLASH_MASK_CAUSAL"),
    AbiField("scale", "float", "of the scores, above 0; 0: 1/sqrt(head_dim)"),
    AbiField("flags", "uint32_t", "0"),
    AbiField("workspace", "void*", "on the device; zero its bytes once, before the first call"),
    AbiField("workspace_bytes", "uint64_t", "how large it is"),
    AbiField("reserved_pointers", "const void*", "null: room for lengths, page tables, scales", 8),
    AbiField("reserved_values", "int64_t", "0: room for what belongs to those", 8),
)
DTYPE_CODES: Mapping[str, int] = {"fp16": 1, "bf16": 2}
MASK_CODES: Mapping[str, int] = {"none": 0, "causal": 1}  # causal: query i sees keys j <= i + seq_kv - seq_q


def tensors(workload: AttentionWorkload) -> tuple[TensorSpec, ...]:
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


def dense_strides(workload: AttentionWorkload) -> tuple[Strides, Strides, Strides, Strides]:
    """Strides of dense Q, K, V, O."""
    query = contiguous(workload.heads, workload.seq_q, workload.head_dim)
    key = contiguous(workload.kv_heads, workload.seq_kv, workload.head_dim)
    return query, key, key, query


def scale(workload: AttentionWorkload) -> float:
    """The softmax scale, 1/sqrt(head_dim)."""
    return 1.0 / math.sqrt(workload.head_dim)


def call_arguments(
    workload: AttentionWorkload,
    addresses: Mapping[str, int],
    strides: Mapping[str, Sequence[int]],
    *,
    workspace: int = 0,
) -> tuple[np.generic, ...]:
    """As arguments(), of addresses and strides by tensor name."""
    q, k, v, o, lse = (addresses[name] for name in ("Q", "K", "V", "O", "LSE"))
    by_tensor = [(s[0], s[1], s[2]) for s in (strides[name] for name in STRIDED)]
    given = (by_tensor[0], by_tensor[1], by_tensor[2], by_tensor[3])
    return arguments(workload, (q, k, v, o, lse), given, workspace=workspace)


def arguments(
    workload: AttentionWorkload,
    pointers: tuple[int, int, int, int, int],
    strides: tuple[Strides, Strides, Strides, Strides] | None = None,
    *,
    workspace: int = 0,
    softmax_scale: float | None = None,
) -> tuple[np.generic, ...]:
    """NumPy scalars in launch order, for pointers (Q, K, V, O, LSE); LSE may be 0 (not wanted). A kernel's
    tensor maps, which emulator and driver make each in their own way, stand before these.

    `workspace` points at global scratch; 0: the kernel takes no such argument. `softmax_scale` is 1/sqrt of
    the head dimension where it is not given.
    """
    flat = [stride for tensor in strides or dense_strides(workload) for stride in tensor]
    integers = (workload.seq_q, workload.seq_kv, workload.heads, workload.kv_heads)
    factor = scale(workload) if softmax_scale is None else softmax_scale
    values = (*pointers, *integers, *flat, factor, *([workspace] if workspace else []))
    taken = PARAMETERS if workspace else PARAMETERS[:-1]
    return tuple(each.type(value) for each, value in zip(taken, values, strict=True))
