"""What the host part of an exported attention kernel is made of. The texts themselves are templates.

The errors of a call stand here, as numbers that no later version gives another meaning; nothing is launched.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from evoflash.launch import TensorMapSpec
from evoflash.operations.attention import abi
from evoflash.paths import TEMPLATES

INTERFACE = TEMPLATES / "lib" / "interface.h.j2"
LAUNCHER = TEMPLATES / "lib" / "launcher.cu.j2"


@dataclass(frozen=True, slots=True)
class CallError:
    """Why a launcher refuses a call: a negative number; a positive one is a cudaError_t."""

    code: int
    name: str
    says: str
    compiled: str = ""  # what of the compile key it was compared with, by name


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


def interface_names() -> dict[str, Any]:
    """What the C declarations are made of: the struct, its codes and the errors."""
    return {
        "version": abi.VERSION,
        "fields": abi.FIELDS,
        "dtypes": abi.DTYPE_CODES,
        "masks": abi.MASK_CODES,
        "errors": ERRORS,
    }


def launcher_names(maps: Iterable[TensorMapSpec]) -> dict[str, Any]:
    """The tensor maps and the kernel's parameters in the launcher's words."""
    return {
        **interface_names(),
        "maps": [_map(given) for given in maps],
        "parameters": abi.PARAMETERS,
        "strided": [name.lower() for name in abi.STRIDED],
    }


def _map(given: TensorMapSpec) -> dict[str, str]:
    of_keys = given.of in "KV"
    _, heads, rows, columns = given.box
    swizzle = f"{given.swizzle}B" if given.swizzle else "NONE"
    promotion = f"L2_{given.l2_promotion}B" if given.l2_promotion else "NONE"
    return {
        "tensor": given.of.lower(),
        "heads": "kv_heads" if of_keys else "heads",
        "rows": "seq_kv" if of_keys else "seq_q",
        "box": f"{heads}, {rows}, {columns}",
        "swizzle": f"CU_TENSOR_MAP_SWIZZLE_{swizzle}",
        "promotion": f"CU_TENSOR_MAP_L2_PROMOTION_{promotion}",
        "heads_inside": str(given.heads_inside).lower(),
    }
