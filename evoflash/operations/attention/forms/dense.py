"""The dense form of an attention call: its tensors, its arguments, and what exports say of both.

One description for the emulator, the GPU, exported launchers in C++ and launch.json. Which axes and sizes the
tensors have is read from runtime/attention_dense.py, which goes with exported files. Launches nothing.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.launch import TensorMapSpec
from evoflash.numerics import Bits, decode, encode
from evoflash.operation import LaunchForm
from evoflash.operations.attention import doors
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.operations.call_form import (
    CallError,
    CallStruct,
    Parameter,
    StructField,
    map_in_words,
    parameters_of,
    scalars,
)
from evoflash.paths import TEMPLATES
from evoflash.runtime import attention_dense as runtime
from evoflash.runtime.description import stride_name
from evoflash.workload import Output, Role, TensorSpec

Strides = tuple[int, int, int]  # batch, head, row; in elements; the last dimension is contiguous

INTERFACE = TEMPLATES / "lib" / "interface_dense.h.j2"
LAUNCHER = TEMPLATES / "lib" / "launcher_dense.cu.j2"
_MARKS = ("b", "h", "row", "col")
_AXES = ("batch", "heads", "rows", "columns")
# (Order of the axes batch, heads, rows, columns in memory, elements behind each row) of a caller's strided
# tensors. No two have the same strides: a kernel that takes one's for another's reads or writes elsewhere.
_STRIDED: Mapping[str, tuple[tuple[int, ...], int]] = {
    "Q": ((0, 2, 1, 3), 16),  # as a program has it that keeps the heads of a row together
    "K": ((0, 1, 2, 3), 32),
    "V": ((1, 0, 2, 3), 48),
    "O": ((0, 1, 2, 3), 64),
}


_MOST_BLOCKS = 1184  # eight for each of 148 SMs
_MOST_ROWS = 32  # of a block
_COUNTERS = 8192  # bytes
TENSORS: Mapping[str, Mapping[str, str]] = {name.upper(): axes for name, axes in runtime.TENSORS.items()}
# In launch order, after the tensor maps; a kernel without global scratch has no workspace.
PARAMETERS = (
    *(Parameter(name, np.uint64, f"elements(args.{name.lower()})") for name in TENSORS),
    Parameter("LSE", np.uint64, "args.lse"),
    *(Parameter(name, np.int32, f"args.{name}") for name in ("seq_q", "seq_kv", "heads", "kv_heads")),
    *(
        Parameter(f"{name}_{axis}", np.int64, f"{name}.{axis}", stride_name(name, axis))
        for name, axes in runtime.TENSORS.items()
        for axis in axes
    ),
    Parameter("scale", np.float32, "scale_of(args)"),
    Parameter("workspace", np.uint64, "Scratch{args.workspace}"),
)

FIELDS = (
    StructField("size", "uint32_t", "sizeof(evoflash_attention_args) of the caller"),
    StructField("version", "uint32_t", "EVOFLASH_ATTENTION_VERSION of the caller"),
    StructField("q", "const void*", "(batch, heads, seq_q, head_dim), on the device as all tensors"),
    StructField("k", "const void*", "(batch, kv_heads, seq_kv, head_dim)"),
    StructField("v", "const void*", "(batch, kv_heads, seq_kv, head_dim)"),
    StructField("o", "void*", "the output, (batch, heads, seq_q, head_dim)"),
    StructField("lse", "float*", "dense (batch, heads, seq_q), natural logarithm; null: not wanted"),
    *(
        StructField(f"{name.lower()}_strides", "int64_t", "of batch, head, row; in elements", 3)
        for name in TENSORS
    ),
    StructField("batch", "int32_t", ""),
    StructField("heads", "int32_t", "of q and o"),
    StructField("kv_heads", "int32_t", "of k and v"),
    StructField("seq_q", "int32_t", "rows of q and o"),
    StructField("seq_kv", "int32_t", "rows of k and v"),
    StructField("head_dim", "int32_t", ""),
    StructField("dtype", "uint32_t", "of q, k, v, o: EVOFLASH_FP16 or EVOFLASH_BF16"),
    StructField("mask", "uint32_t", "EVOFLASH_MASK_NONE or EVOFLASH_MASK_CAUSAL"),
    StructField("scale", "float", "of the scores, above 0; 0: 1/sqrt(head_dim)"),
    StructField("flags", "uint32_t", "0"),
    StructField("workspace", "void*", "on the device; zero its bytes once, before the first call"),
    StructField("workspace_bytes", "uint64_t", "how large it is"),
    StructField("reserved_pointers", "const void*", "null: room for lengths, page tables, scales", 8),
    StructField("reserved_values", "int64_t", "0: room for what belongs to those", 8),
)
DTYPE_CODES: Mapping[str, int] = {"fp16": 1, "bf16": 2}
MASK_CODES: Mapping[str, int] = {"none": 0, "causal": 1}  # causal: query i sees keys j <= i + seq_kv - seq_q
ERRORS = (
    CallError(-1, "BAD_VERSION", "size or version is not what evoflash_attention_args_init() sets"),
    CallError(-2, "RESERVED", "flags, a reserved field or a byte beyond this version's struct is not 0"),
    CallError(-3, "BAD_SHAPE", "a size is below 1, a sequence above 2^24, or a tensor above 2^38 elements"),
    CallError(-4, "BAD_HEADS", "heads is not kv_heads times the compiled ratio", "gqa_ratio"),
    CallError(-5, "BAD_HEAD_DIM", "head_dim is not the compiled one", "head_dim"),
    CallError(-6, "BAD_DTYPE", "dtype is not the compiled one", "dtype"),
    CallError(-7, "BAD_MASK", "mask is not the compiled one", "mask"),
    CallError(-8, "BAD_SCALE", "scale is negative, infinite or no number"),
    CallError(-9, "NULL_POINTER", "q, k, v or o is null"),
    CallError(-10, "MISALIGNED", "q, k, v, o or workspace is no multiple of 16 bytes, or lse of 4"),
    CallError(-11, "BAD_STRIDES", "a stride is no multiple of 8 from 8 to 2^38 elements, or rows overlap"),
    CallError(-12, "BAD_WORKSPACE", "workspace is null or smaller than the kernel needs"),
    CallError(-13, "BAD_GRID", "more blocks than a grid can have: use fewer heads or batch elements"),
    CallError(-14, "NO_TENSOR_MAP", "the driver has no tensor map for these tensors"),
)
STRUCT = CallStruct("evoflash_attention", "EVOFLASH", FIELDS, ERRORS)


def tensors(workload: AttentionWorkload) -> tuple[TensorSpec, ...]:
    """Q, K, V, O and LSE, which is a float32 tensor (batch, heads, seq_q) and may be left out."""
    rows = _extents(workload, "O")
    return (
        *(_tensor(name, workload) for name in TENSORS),
        TensorSpec("LSE", "numbers", rows, _MARKS[:3], _AXES[:3], "fp32", is_optional=True),
    )


def _tensor(name: str, workload: AttentionWorkload) -> TensorSpec:
    spread, gap = _STRIDED[name]
    shape = (*_extents(workload, name), workload.head_dim)
    role: Role = "rows" if name == "O" else "input"
    return TensorSpec(name, role, shape, _MARKS, _AXES, workload.dtype, spread=spread, gap=gap)


def _extents(workload: AttentionWorkload, name: str) -> tuple[int, ...]:
    sizes = workload.names()
    return tuple(sizes[size] for size in TENSORS[name].values())


def output(out: Bits, lse: NDArray[np.float32] | None = None) -> Output:
    """O's bits (batch, heads, seq_q, head_dim) and LSE, missing where a kernel was asked for none."""
    return Output({"O": out} if lse is None else {"O": out, "LSE": lse})


def dense_strides(workload: AttentionWorkload) -> tuple[Strides, Strides, Strides, Strides]:
    """Strides of dense Q, K, V, O."""
    q, k, v, o = ((s[0], s[1], s[2]) for s in (spec.strides for spec in tensors(workload)[:-1]))
    return q, k, v, o


def scale(workload: AttentionWorkload) -> float:
    """The softmax scale, 1/sqrt(head_dim)."""
    return 1.0 / math.sqrt(workload.head_dim)


def call_arguments(
    workload: AttentionWorkload,
    addresses: Mapping[str, int],
    strides: Mapping[str, Sequence[int]],
    *,
    workspace: int = 0,
    softmax_scale: float | None = None,
) -> tuple[np.generic, ...]:
    """As arguments(), of addresses and strides by tensor name."""
    q, k, v, o, lse = (addresses[name] for name in ("Q", "K", "V", "O", "LSE"))
    by_tensor = [(s[0], s[1], s[2]) for s in (strides[name] for name in TENSORS)]
    given = (by_tensor[0], by_tensor[1], by_tensor[2], by_tensor[3])
    return arguments(workload, (q, k, v, o, lse), given, workspace=workspace, softmax_scale=softmax_scale)


def rescale(inputs: Any, workload: AttentionWorkload) -> tuple[Any, dict[str, float]]:
    """Inputs with twice the queries, or half of them where some would be infinite then, and the softmax scale
    that makes up for it: the right outputs are the same to the bit, but for queries that become subnormal.
    """
    queries = decode(inputs.q, workload.dtype)
    for factor in (2.0, 0.5):
        changed = encode(factor * queries, workload.dtype)
        if (np.isfinite(decode(changed, workload.dtype)) | ~np.isfinite(queries)).all():
            break
    return replace(inputs, q=changed), {"softmax_scale": scale(workload) / factor}


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
    return scalars(PARAMETERS, (*pointers, *integers, *flat, factor), workspace=workspace)


def further_scratch(workload: AttentionWorkload) -> int:
    """Room for two parts of a few rows that share keys from each of _MOST_BLOCKS blocks: where blocks have
    equal shares of all keys, one head's may be shared by all of them.
    """
    rows = min(_MOST_ROWS, workload.gqa_ratio * workload.seq_q)
    return 16 * _MOST_BLOCKS * rows * (workload.head_dim + 4) + 2 * _COUNTERS


# ---- exports


def interface_names() -> dict[str, Any]:
    """What the C declarations are made of: the struct, its codes and the errors."""
    return {**STRUCT.names(), "dtypes": DTYPE_CODES, "masks": MASK_CODES}


def launcher_names(maps: Iterable[TensorMapSpec]) -> dict[str, Any]:
    """The tensors, the tensor maps and the kernel's parameters in the launcher's words."""
    return {
        **interface_names(),
        "maps": [_map_in_words(given) for given in maps],
        "parameters": PARAMETERS,
        "tensors": runtime.TENSORS,
    }


def _map_in_words(given: TensorMapSpec) -> dict[str, str]:
    axes = TENSORS[given.of]
    _, heads, rows, columns = given.box
    return {
        **map_in_words(given),
        "heads": axes["head"],
        "rows": axes["row"],
        "box": f"{heads}, {rows}, {columns}",
        "heads_inside": str(given.heads_inside).lower(),
    }


def launch_arguments(*, has_workspace: bool) -> list[str]:
    """Kind and name of each argument, in the words of launch.json: "q_batch" is "q_stride_batch" there."""
    return [each.in_launch for each in parameters_of(PARAMETERS, has_workspace=has_workspace)]


def contract(workload: AttentionWorkload) -> dict[str, Any]:
    return {
        "dtype": workload.dtype,
        "head_dim": workload.head_dim,
        "gqa_ratio": workload.gqa_ratio,
        "causal": workload.causal,
        "accumulate": workload.accumulate,
        "scale": scale(workload),
        "layouts": ["bhsd", "bshd", "any strides of batch, head and row that are multiples of 8 elements"],
    }


LAUNCH_FORM = LaunchForm(
    runtime.DENSE.name,
    runtime.SIZES,
    launch_arguments,
    contract,
    doors.computes,
    function="attention",
    doors=doors.DOORS,
    solution=doors.SOLUTION,
)
