"""The paged form of an attention call: its launch struct, which calls it takes, and their launch.

The struct is the one that C and CUDA read in templates/lib/paged_args.h.j2; tests compare the two.
"""

import ctypes
import math
import operator
import struct
from collections.abc import Mapping, Sequence
from ctypes import c_float, c_int32, c_int64, c_uint32, c_uint64
from dataclasses import dataclass, replace
from typing import Any

from .description import CheckedCall, Form, Refused
from .plan import Frame, Plan, PlannedLaunch

# Those of launch.json's expressions; a shape that is planned has `num_pages` besides.
PAGED_SIZES = ("batch", "heads", "kv_heads", "seq_q", "seq_kv", "total_q", "page_size")
PAGED_SHAPE = (*PAGED_SIZES, "num_pages")
# Tensors whose strides are told: of a sequence, a row and a head; of a page, a head and a row in it; and of
# the table of pages, from one sequence to the next.
PAGED_STRIDES = {"q": 3, "k": 3, "v": 3, "o": 3, "lse": 3, "page_table": 1}
PAGED_VERSION = 2
PAGED_DTYPES = {"fp32": 0, "fp16": 1, "bf16": 2}
PAGED_EARLY = 1  # of the flags: lengths and tables are not written by the launch before
_MOST_KEYS, _MOST_PAGE, _MOST_SIZE, _MOST_STRIDE = 1 << 30, 1 << 20, 2**31 - 1, 1 << 48


class PagedArgs(ctypes.Structure):
    """evoflash_paged_args."""

    _fields_ = (
        ("size", c_uint32),
        ("version", c_uint32),
        *((name, c_uint64) for name in ("q", "k", "v", "o", "lse")),
        *((f"{name}_strides", c_int64 * 3) for name in ("q", "o", "k", "v", "lse")),
        *((name, c_int32) for name in ("batch", "heads", "kv_heads", "head_dim", "page_size", "num_pages")),
        ("page_table", c_uint64),
        ("page_table_stride", c_int64),
        ("page_table_v_offset", c_int64),
        *((name, c_uint64) for name in ("page_indptr", "last_page_len", "kv_lengths", "q_indptr")),
        *((name, c_int32) for name in ("kv_length_bias", "max_seq_q", "max_seq_kv", "total_q")),
        *((name, c_uint64) for name in ("q_scale", "k_scale", "v_scale", "k_scale_cache", "v_scale_cache")),
        *((f"{name}_scale_strides", c_int64 * 2) for name in ("q", "k", "v")),
        *((f"{name}_scale_cache_strides", c_int64 * 3) for name in ("k", "v")),
        *((name, c_float) for name in ("scale", "v_factor", "softcap")),
        *((name, c_int32) for name in ("window_left", "window_right")),
        ("sink_dtype", c_uint32),
        ("sinks", c_uint64),
        ("draft_mask", c_uint64),
        ("draft_mask_strides", c_int64 * 2),
        *((name, c_uint32) for name in ("dtype", "kv_dtype", "lse_base")),
        *((name, c_int32) for name in ("split_keys", "sm_margin")),
        ("flags", c_uint32),
        *((name, c_uint64) for name in ("workspace", "workspace_bytes", "zeroed_bytes")),
        ("reserved_pointers", c_uint64 * 4),
        ("reserved_values", c_int64 * 4),
    )


@dataclass(frozen=True)
class PagedContract:
    """The calls that a kernel was compiled for."""

    dtype: str
    head_dim: int
    gqa_ratio: int
    rows: int  # of a sequence, at most
    page_unit: int  # a page has a multiple of so many keys
    window: bool
    softcap: bool
    sink: bool
    ragged: bool


def parse_paged_contract(given: Mapping[str, Any]) -> PagedContract:
    """Of launch.json."""
    head_dim, ratio, rows, unit = (
        int(given[name]) for name in ("head_dim", "gqa_ratio", "rows", "page_unit")
    )
    features = (bool(given[name]) for name in ("window", "softcap", "sink", "ragged"))
    return PagedContract(str(given["dtype"]), head_dim, ratio, rows, unit, *features)


@dataclass(frozen=True)
class PagedNumbers:
    """What a plan is told besides sizes, strides and the softmax scale."""

    v_factor: float = 1.0  # of the output
    window_left: int = -1  # keys before its own that a query sees; -1: all
    softcap: float = 0.0
    sink_dtype: str = ""  # "fp32" or "bf16"; empty: no sinks
    is_ragged: bool = False  # q_indptr is given
    lse_base: int = 0  # 0: natural logarithm; 2: of base 2
    kv_length_bias: int = 0
    page_table_v_offset: int = 0
    sm_margin: int = 0
    is_early: bool = False  # the kernel before on the stream writes neither lengths nor tables


def check_paged(
    name: str,
    contract: PagedContract,
    shape: Sequence[int],
    strides: Sequence[Sequence[int]],
    scale: float | None = None,
    **more: Any,
) -> CheckedCall:
    """The call of a shape PAGED_SHAPE with strides PAGED_STRIDES, `more` being PagedNumbers. Refused for what
    was not verified.
    """
    try:
        numbers = PagedNumbers(**more)
    except TypeError:
        raise Refused(f"{name}: {', '.join(more)}: give those of PagedNumbers.") from None
    sizes = dict(zip(PAGED_SHAPE, _integers(shape, len(PAGED_SHAPE), "a shape"), strict=True))
    if why := _size_trouble(contract, sizes) or _feature_trouble(contract, sizes, numbers, scale):
        raise Refused(f"{name}: {why}.")
    args = _struct_of(name, contract, sizes, strides, numbers)
    args.scale = 1.0 / math.sqrt(contract.head_dim) if scale is None else scale
    launched = {size: sizes[size] for size in PAGED_SIZES}
    return CheckedCall(launched, {}, {}, {}, {"args": bytes(args)})


def _size_trouble(contract: PagedContract, sizes: Mapping[str, int]) -> str:
    """Why no kernel takes these sizes; empty where one may."""
    if min(sizes.values()) < 1 or max(sizes.values()) > _MOST_SIZE:
        return f"sizes of {', '.join(f'{k}={v}' for k, v in sizes.items())}: give numbers from 1 to 2^31 - 1"
    heads, kv_heads, rows, page = (sizes[each] for each in ("heads", "kv_heads", "seq_q", "page_size"))
    if heads != kv_heads * contract.gqa_ratio:
        return (
            f"{heads} query heads on {kv_heads} key/value heads: the kernel was compiled for "
            f"{contract.gqa_ratio} on each"
        )
    if rows > contract.rows:
        return f"{rows} query rows a sequence: the kernel was compiled for up to {contract.rows}"
    if page % contract.page_unit or page > _MOST_PAGE:
        return f"pages of {page} keys: the kernel was compiled for multiples of {contract.page_unit}"
    if sizes["seq_kv"] > _MOST_KEYS:
        return f"{sizes['seq_kv']} keys: a kernel counts 2^30 of them"
    return ""


def _feature_trouble(
    contract: PagedContract, sizes: Mapping[str, int], numbers: PagedNumbers, scale: float | None
) -> str:
    """Why the kernel, as compiled, does not compute this; empty where it may."""
    given = {
        "a window": (numbers.window_left >= 0, contract.window),
        "a softcap": (numbers.softcap != 0, contract.softcap),
        "sinks": (bool(numbers.sink_dtype), contract.sink),
        "q_indptr": (numbers.is_ragged, contract.ragged),
    }
    for what, (is_given, is_compiled) in given.items():
        if is_given != is_compiled:
            return f"the kernel was compiled {'with' if is_compiled else 'without'} {what}"
    rows, most = sizes["total_q"], sizes["batch"] * sizes["seq_q"]
    if rows > most or (rows != most and not numbers.is_ragged):
        return f"{rows} rows of q: {sizes['batch']} sequences of {sizes['seq_q']} rows have {most}"
    if not -1 <= numbers.window_left <= _MOST_SIZE:
        return f"window_left is {numbers.window_left}: give -1, or the keys before its own that a query sees"
    if not (0 <= numbers.softcap < math.inf):
        return f"a softcap of {numbers.softcap}: give a number above 0"
    if numbers.sink_dtype not in ("", "fp32", "bf16"):
        return f"sinks of {numbers.sink_dtype}: give fp32 or bf16"
    if numbers.lse_base not in (0, 2):
        return f"lse_base is {numbers.lse_base}: give 0, the natural logarithm, or 2"
    if scale is not None and not 0 < scale < math.inf:
        return f"a softmax scale of {scale}: give a number above 0"
    if not math.isfinite(numbers.v_factor):
        return f"what multiplies the output is {numbers.v_factor}: give a finite number"
    if abs(numbers.kv_length_bias) > _MOST_KEYS or not 0 <= numbers.sm_margin <= _MOST_SIZE:
        return f"kv_length_bias={numbers.kv_length_bias}, sm_margin={numbers.sm_margin}: give smaller ones"
    return ""


def _struct_of(
    name: str,
    contract: PagedContract,
    sizes: Mapping[str, int],
    strides: Sequence[Sequence[int]],
    numbers: PagedNumbers,
) -> PagedArgs:
    """The struct without addresses and scale. The stride of an extent of 1 is 0: programs have any there."""
    if len(strides) != len(PAGED_STRIDES):
        raise Refused(f"{name}: strides of {len(strides)} tensors: give {', '.join(PAGED_STRIDES)}.")
    # Of a ragged call any sequence may have any row, and sequences have no stride.
    row_axes = (
        1 if numbers.is_ragged else sizes["batch"],
        2 if numbers.is_ragged else sizes["seq_q"],
        sizes["heads"],
    )
    page_axes = sizes["num_pages"], sizes["kv_heads"], sizes["page_size"]
    extents = {"q": row_axes, "o": row_axes, "lse": row_axes, "k": page_axes, "v": page_axes}
    table_axes = {"page_table": (sizes["batch"],)}
    args = PagedArgs(size=ctypes.sizeof(PagedArgs), version=PAGED_VERSION)
    for (tensor, count), given in zip(PAGED_STRIDES.items(), strides, strict=True):
        known = _integers(given, count, f"{tensor}'s strides")
        axes = {**extents, **table_axes}[tensor]
        known = [stride if extent > 1 else 0 for stride, extent in zip(known, axes, strict=True)]
        least = {"lse": 1, "page_table": 0}.get(tensor, contract.head_dim)  # sequences may share pages
        for stride, extent in zip(known, axes, strict=True):
            if extent > 1 and (not least <= stride <= _MOST_STRIDE or (least > 1 and stride % 8)):
                raise Refused(
                    f"{name}: {tensor} has strides {tuple(given)} for extents {axes}: rows must not overlap"
                    f"{', and begin at multiples of 16 bytes' if least > 1 else ''}."
                )
        if tensor == "page_table":
            args.page_table_stride = known[0]
        else:
            getattr(args, f"{tensor}_strides")[:] = known
    args.head_dim, args.max_seq_q, args.max_seq_kv = contract.head_dim, sizes["seq_q"], sizes["seq_kv"]
    for each in ("batch", "heads", "kv_heads", "page_size", "num_pages", "total_q"):
        setattr(args, each, sizes[each])
    for each in ("v_factor", "window_left", "softcap", "lse_base", "kv_length_bias", "page_table_v_offset"):
        setattr(args, each, getattr(numbers, each))
    args.sm_margin, args.flags = numbers.sm_margin, PAGED_EARLY if numbers.is_early else 0
    args.dtype = args.kv_dtype = PAGED_DTYPES[contract.dtype]
    args.sink_dtype = PAGED_DTYPES[numbers.sink_dtype or "fp32"]
    return args


def _integers(given: Sequence[int], count: int, what: str) -> list[int]:
    try:
        found = [operator.index(number) for number in given]
    except TypeError:
        found = []
    if len(found) != count or any(abs(number) >= 1 << 62 for number in found):
        raise Refused(f"{what} of {given!r}: give {count} whole numbers.")
    return found


@dataclass(frozen=True)
class PagedAddresses:
    """Where a call's tensors lie on the device; 0 for what it has not."""

    q: int
    k: int
    v: int
    page_table: int
    kv_lengths: int
    q_indptr: int
    page_indptr: int
    last_page_len: int
    sinks: int
    o: int
    lse: int
    workspace: int


_pack_tensors = struct.Struct("5Q").pack_into
_pack_lengths = struct.Struct("4Q").pack_into
_pack_address = struct.Struct("Q").pack_into
_AT_TENSORS, _AT_TABLE, _AT_LENGTHS = (
    PagedArgs.q.offset,
    PagedArgs.page_table.offset,
    PagedArgs.page_indptr.offset,
)
_AT_SINKS, _AT_WORKSPACE = PagedArgs.sinks.offset, PagedArgs.workspace.offset


class PagedPlan(Plan):
    """A plan of this form."""

    def __init__(
        self,
        driver: Any,
        context: int,
        *,
        steps: Sequence[PlannedLaunch],
        arguments: tuple[bytes, Sequence[int]],
        **rest: Any,
    ) -> None:
        planned = PagedArgs.from_buffer_copy(arguments[0])
        if not planned.flags & PAGED_EARLY:
            steps = [replace(step, dependent=False) for step in steps]
        super().__init__(driver, context, steps=steps, arguments=arguments, **rest)

    def launch(self, at: PagedAddresses, stream: int) -> None:
        """Enqueues a call on a CUstream of the plan's device; returns before it has run.

        The workspace is that of `workspace_bytes`, or 0 where that is 0. Refused for an address that no
        kernel takes, LaunchError where the driver refuses the launch.
        """
        whole = at.q | at.k | at.v | at.o | at.workspace
        numbers = at.lse | at.page_table | at.page_indptr | at.last_page_len | at.kv_lengths | at.q_indptr
        if (
            whole & 15
            or numbers & 3
            or at.sinks & 1
            or not (at.q and at.k and at.v and at.o and at.page_table)
        ):
            raise Refused(
                f"{self._name}: q, k, v, the output and the workspace begin at multiples of 16 bytes, "
                "lengths, tables and LSE of 4; none but LSE may be left out."
            )
        if not at.kv_lengths and not (at.page_indptr and at.last_page_len):
            raise Refused(f"{self._name}: give kv_lengths, or page_indptr with last_page_len.")
        if self.workspace_bytes and not at.workspace:
            raise Refused(f"{self._name} needs a workspace of {self.workspace_bytes} bytes: give one.")
        try:
            frame = self._frames.pop()  # nobody else's until it is put back: list operations are atomic
        except IndexError:
            frame = Frame(self)
        slots = frame.slots
        _pack_tensors(slots, _AT_TENSORS, at.q, at.k, at.v, at.o, at.lse)
        _pack_address(slots, _AT_TABLE, at.page_table)
        _pack_lengths(slots, _AT_LENGTHS, at.page_indptr, at.last_page_len, at.kv_lengths, at.q_indptr)
        _pack_address(slots, _AT_SINKS, at.sinks)
        _pack_address(slots, _AT_WORKSPACE, at.workspace)
        self._send(frame, (), stream)


PAGED = Form("paged", PAGED_SIZES, {}, (), ("args",), parse_paged_contract, check_paged, PagedPlan)
