"""The form of a call of paged attention: its tensors, its one argument, and what exports say of both.

One description for the emulator, the GPU and exported launchers in C++: the struct is read from the C text
that all of them include. Launches nothing.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash.launch import TensorMapSpec
from evoflash.numerics import decode, encode
from evoflash.operation import LaunchForm
from evoflash.operations.call_form import CallError, CallStruct, Parameter, StructField
from evoflash.operations.paged import doors
from evoflash.operations.paged.workload import PagedWorkload, pages_needed
from evoflash.paths import TEMPLATES
from evoflash.runtime.attention_paged import PAGED, PAGED_SIZES
from evoflash.workload import TensorSpec

ARGUMENTS = TEMPLATES / "lib" / "paged_args.h.j2"  # the struct's declaration
INTERFACE = TEMPLATES / "lib" / "interface_paged.h.j2"
LAUNCHER = TEMPLATES / "lib" / "launcher_paged.cu.j2"
_SPARE = 4  # pages of the pool that no sequence has
# The number of the first page in memory, where a caller's pool is larger than what is laid out here: neither
# 16 bits count the pages, nor 32 bits the elements before one.
_FIRST_PAGE = {"append": 3_000_017}
# Such a caller has entries of V behind those of K in each row of its table, with numbers that are so much
# larger for the same place in memory.
_OWN_PAGES = {"append": 11}
_FIELD = re.compile(
    r"^  (?P<type>[\w *]+?) (?P<name>\w+)(?:\[(?P<count>\d+)\])?; +// (?P<about>.+)$", re.MULTILINE
)
_KINDS: Mapping[str, type[np.generic]] = {
    "unsigned int": np.uint32,
    "int": np.int32,
    "float": np.float32,
    "long long": np.int64,
    "unsigned long long": np.uint64,
}


def _read_fields() -> tuple[StructField, ...]:
    text = ARGUMENTS.read_text(encoding="utf-8")
    return tuple(
        StructField(found["name"], found["type"], found["about"], int(found["count"] or 1))
        for found in _FIELD.finditer(text)
    )


def _format(given: StructField) -> tuple[str, type[np.generic], tuple[int, ...]]:
    """A field of the struct in NumPy."""
    kind = _KINDS["unsigned long long" if given.type.endswith("*") else given.type]
    shape: tuple[int, ...] = (given.count,) if given.count > 1 else ()
    return given.name, kind, shape


ERRORS = (
    CallError(-1, "BAD_VERSION", "size or version is not what evoflash_paged_args_init() sets"),
    CallError(-2, "RESERVED", "a scale, a mask of drafts, flags or what else this version knows not is set"),
    CallError(-3, "BAD_SHAPE", "a size is below 1, or keys are more than 2^30"),
    CallError(-4, "BAD_HEADS", "heads is not kv_heads times the compiled ratio", "gqa_ratio"),
    CallError(-5, "BAD_HEAD_DIM", "head_dim is not the compiled one", "head_dim"),
    CallError(-6, "BAD_DTYPE", "dtype or kv_dtype is not the compiled one", "dtype"),
    CallError(-7, "BAD_ROWS", "max_seq_q is above what the kernel is compiled for", "rows"),
    CallError(-8, "BAD_PAGE_SIZE", "page_size is no multiple of the compiled unit", "page_unit"),
    CallError(-9, "BAD_WINDOW", "window_left is -1, or not, other than compiled", "window"),
    CallError(-10, "NOT_CAUSAL", "window_right is not 0: queries see no later keys here"),
    CallError(-11, "BAD_SOFTCAP", "softcap is 0, or above it, other than compiled", "softcap"),
    CallError(
        -12, "BAD_SINKS", "sinks is given, or null, other than compiled, or of an unknown type", "sink"
    ),
    CallError(-13, "BAD_RAGGED", "q_indptr is other than compiled, or total_q is no sum of rows", "ragged"),
    CallError(-14, "NO_LENGTHS", "neither kv_lengths, nor page_indptr with last_page_len, is given"),
    CallError(-15, "NULL_POINTER", "q, k, v, o or page_table is null"),
    CallError(-16, "MISALIGNED", "q, k, v, o or workspace is no multiple of 16 bytes, or another of 4"),
    CallError(-17, "BAD_STRIDES", "a stride of q, k, v or o is no multiple of 8 from head_dim to 2^48"),
    CallError(-18, "SHORT_TABLE", "max_seq_kv keys need more pages than a row of page_table has"),
    CallError(-19, "BAD_SCALE", "scale or v_factor is infinite or no number, or scale is negative"),
    CallError(-20, "BAD_WORKSPACE", "workspace is null or smaller than the kernel needs"),
    CallError(-21, "BAD_GRID", "more blocks than a grid can have: use fewer heads or sequences"),
    CallError(-22, "BAD_LSE", "lse_base is neither 0 nor 2"),
)
# The second form of attention's launch struct: the first one is of dense tensors.
STRUCT = CallStruct("evoflash_paged", "EVOFLASH_PAGED", _read_fields(), ERRORS, version=2)
LAYOUT = np.dtype([_format(each) for each in STRUCT.fields])  # without padding, as the text promises
PARAMETERS = (Parameter("args", np.void, "call"),)
_DTYPE_CODES = {"fp32": 0, "fp16": 1, "bf16": 2}
# The struct's declaration and its numbers of types, without a word for people: for a kernel of our own.
STRUCT_TEXT = "".join(
    (
        "\nstruct evoflash_paged_args {\n",
        *(f"  {x.type} {x.name}{f'[{x.count}]' if x.count > 1 else ''};\n" for x in STRUCT.fields),
        "};\n",
        f"constexpr unsigned int kBf16 = {_DTYPE_CODES['bf16']};\n\n",
    )
)


# ---- tensors

_ROW_MARKS, _ROW_AXES = ("row", "h", "col"), ("rows", "heads", "columns")
_PAGE_MARKS, _PAGE_AXES = ("page", "h", "slot", "col"), ("pages", "heads", "rows", "columns")


_MOST_BLOCKS = 1184  # eight for each of 148 SMs


def further_scratch(workload: PagedWorkload) -> int:
    """Room for a part of all rows that share a key/value head from each of _MOST_BLOCKS blocks: where blocks
    have equal shares of the keys of all sequences, one sequence may be shared by all of them.
    """
    rows = workload.gqa_ratio * workload.seq_q
    return 4 * _MOST_BLOCKS * rows * (workload.head_dim + 4) + _MOST_BLOCKS * 8


def tensors(workload: PagedWorkload) -> tuple[TensorSpec, ...]:
    """Q, pages of K and V, what says where a sequence's keys lie, sinks; O and LSE, which may be left out.

    Dense pages have a head's rows side by side. Apart, those of K have a row's heads side by side, as most
    engines do, and no two tensors have the same strides.
    """
    w = workload
    rows = (w.total_q, w.heads)
    pages = (pool_pages(w), w.kv_heads, w.page, w.head_dim)
    found = [
        TensorSpec(
            "Q", "input", (*rows, w.head_dim), _ROW_MARKS, _ROW_AXES, w.dtype, spread=(0, 1, 2), gap=16
        ),
        TensorSpec("K", "input", pages, _PAGE_MARKS, _PAGE_AXES, w.dtype, spread=(0, 2, 1, 3), gap=32),
        TensorSpec("V", "input", pages, _PAGE_MARKS, _PAGE_AXES, w.dtype, spread=(0, 1, 2, 3), gap=48),
    ]
    if w.caller == "csr":
        found += [
            _numbers("INDPTR", (w.batch + 1,)),
            _numbers("PAGES", (w.batch * w.columns,)),
            _numbers("LAST", (w.batch,)),
        ]
    else:
        entries = w.columns * (2 if own_pages(w) else 1)
        table = replace(_numbers("TABLE", (w.batch, entries)), spread=(0, 1), gap=3)
        found += [table, _numbers("LENGTHS", (w.batch,))]
    if w.ragged:
        found.append(_numbers("QINDPTR", (w.batch + 1,)))
    if w.sink:
        found.append(TensorSpec("SINKS", "input", (w.heads,), ("h",), ("heads",), w.sink))
    lse = TensorSpec("LSE", "numbers", rows, _ROW_MARKS[:2], _ROW_AXES[:2], "fp32", is_optional=True)
    return (
        *found,
        TensorSpec(
            "O", "rows", (*rows, w.head_dim), _ROW_MARKS, _ROW_AXES, w.dtype, spread=(1, 0, 2), gap=64
        ),
        replace(lse, spread=(1, 0), gap=8),
    )


def _numbers(name: str, shape: tuple[int, ...]) -> TensorSpec:
    """Whole numbers, which no kernel before a call writes: an engine sets them before its first layer."""
    marks = ("seq", "at")[: len(shape)] if len(shape) > 1 else ("at",)
    axes = ("sequences", "places")[: len(shape)] if len(shape) > 1 else ("places",)
    return TensorSpec(name, "input", shape, marks, axes, "int32", is_constant=True)


def pool_pages(workload: PagedWorkload) -> int:
    """Pages of K and of V: those of which some row sees a key, and a few that no sequence has."""
    needed = pages_needed(workload, [(workload.seq_q, keys) for keys in workload.keys])
    return max(needed, workload.columns if not workload.window else 1) + _SPARE


def first_page(workload: PagedWorkload) -> int:
    """The number of the first page of K and V that is laid out."""
    return _FIRST_PAGE.get(workload.caller, 0)


def own_pages(workload: PagedWorkload) -> int:
    """By how much a page of V has a larger number than that of K, where V has entries of its own; 0: it has
    none.
    """
    return _OWN_PAGES.get(workload.caller, 0)


def first_pages(workload: PagedWorkload) -> NDArray[np.int64]:
    """The number of the first page in memory by column of the table; one for all where they are alike."""
    first, own = first_page(workload), own_pages(workload)
    return np.repeat(np.array([first, first + own], np.int64), workload.columns) if own else np.array([first])


# ---- the argument


def scale(workload: PagedWorkload) -> float:
    """The softmax scale, 1/sqrt(head_dim)."""
    return 1.0 / math.sqrt(workload.head_dim)


def arguments(
    workload: PagedWorkload,
    addresses: Mapping[str, int],
    strides: Mapping[str, Sequence[int]],
    *,
    workspace: int = 0,
    softmax_scale: float | None = None,
    v_factor: float = 1.0,
) -> tuple[np.generic, ...]:
    """The struct, as a launcher leaves it. `workspace` points at global scratch; 0: the kernel takes none."""
    w, sizes = workload, {"batch": workload.batch, "heads": workload.heads, "kv_heads": workload.kv_heads}
    value: np.void = np.zeros(1, LAYOUT)[0]
    set_to: dict[str, Any] = {
        **sizes,
        "size": LAYOUT.itemsize,
        "version": STRUCT.version,
        "head_dim": w.head_dim,
        "page_size": w.page,
        "num_pages": first_page(w) + own_pages(w) + pool_pages(w),
        "max_seq_q": w.seq_q,
        "max_seq_kv": w.seq_kv,
        "total_q": w.total_q,
        "scale": scale(w) if softmax_scale is None else softmax_scale,
        "v_factor": v_factor,
        "softcap": w.softcap,
        "window_left": w.window - 1,
        "sink_dtype": _DTYPE_CODES[w.sink or "fp32"],
        "dtype": _DTYPE_CODES[w.dtype],
        "kv_dtype": _DTYPE_CODES[w.dtype],
        "lse_base": 2 if w.lse_base == "2" else 0,
        "kv_length_bias": w.seq_q if w.caller == "append" else 0,
        "workspace": workspace,
        "page_table_v_offset": w.columns if own_pages(w) else 0,
        "page_table": addresses["PAGES" if w.caller == "csr" else "TABLE"],
        **{field: addresses.get(name, 0) for field, name in _TENSOR_OF.items()},
        **_strides(w, strides),
    }
    for name, given in set_to.items():
        value[name] = given
    for name, shift in (("k", 0), ("v", own_pages(w))):  # those of the pool's page 0
        before = 2 * (first_page(w) + shift) * int(strides[name.upper()][0])
        value[name] = (int(value[name]) - before) % (1 << 64)
    return (value,)


_TENSOR_OF = {
    "q": "Q",
    "k": "K",
    "v": "V",
    "o": "O",
    "lse": "LSE",
    "kv_lengths": "LENGTHS",
    "page_indptr": "INDPTR",
    "last_page_len": "LAST",
    "q_indptr": "QINDPTR",
    "sinks": "SINKS",
}


def _strides(workload: PagedWorkload, strides: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Those of the struct. An axis of extent 1 has 0: programs have any number there."""
    w = workload

    def of_rows(name: str) -> list[int]:
        row, head = strides[name][:2]
        if w.ragged:
            return [0, row, head if w.heads > 1 else 0]
        return [
            w.seq_q * row if w.batch > 1 else 0,
            row if w.seq_q > 1 else 0,
            head if w.heads > 1 else 0,
        ]

    def of_pages(name: str) -> list[int]:
        extents = (first_page(w) + pool_pages(w), w.kv_heads, w.page)
        return [stride if extent > 1 else 0 for stride, extent in zip(strides[name], extents, strict=False)]

    found: dict[str, Any] = {f"{name.lower()}_strides": of_rows(name) for name in ("Q", "O", "LSE")}
    found |= {f"{name.lower()}_strides": of_pages(name) for name in ("K", "V")}
    if "TABLE" in strides:
        found["page_table_stride"] = strides["TABLE"][0] if w.batch > 1 else 0
    return found


def rescale(inputs: Any, workload: PagedWorkload) -> tuple[Any, dict[str, float]]:
    """Inputs with twice the queries and twice the values, or half of them where some would be infinite then,
    and the scale and the factor that make up for it: the right outputs are the same to the bit, but for what
    becomes subnormal.
    """
    changed, factors = {}, {}
    for name in ("Q", "V"):
        bits = inputs.tensors[name]
        numbers = decode(bits, workload.dtype)
        for factor in (2.0, 0.5):
            with np.errstate(invalid="ignore"):
                changed[name] = encode(factor * numbers, workload.dtype)
            if (np.isfinite(decode(changed[name], workload.dtype)) | ~np.isfinite(numbers)).all():
                break
        factors[name] = factor
    given = {"softmax_scale": scale(workload) / factors["Q"], "v_factor": 1 / factors["V"]}
    return replace(inputs, tensors={**inputs.tensors, **changed}), given


# ---- exports


def launcher_names(maps: Iterable[TensorMapSpec]) -> dict[str, Any]:
    """What an exported launcher is made of. No kernel here takes tensor maps yet."""
    assert not tuple(maps), "the launcher encodes no tensor maps"
    return {**STRUCT.names(), "maps": (), "parameters": PARAMETERS}


def launch_arguments(*, has_workspace: bool) -> list[str]:
    """Kind and name of each argument, in the words of launch.json: the struct has its place for scratch."""
    return [each.in_launch for each in PARAMETERS]


def contract(workload: PagedWorkload) -> dict[str, Any]:
    names = workload.compile_key("any").names()
    return {name: names[name] for name in _CONTRACT}


_CONTRACT = (
    *("dtype", "head_dim", "gqa_ratio", "rows", "page_unit"),
    *("window", "softcap", "sink", "ragged", "invariant"),
)
LAUNCH_FORM = LaunchForm(
    PAGED.name,
    PAGED_SIZES,
    launch_arguments,
    contract,
    doors.computes,
    function="paged_attention",
    doors=doors.DOORS,
    solution=None,
    no_door=doors.NO_DOOR,
)
