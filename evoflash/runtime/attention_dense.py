"""The dense form of an attention call: Q, K, V and O with strides. Which shapes it takes, and their launch.

Its tables are the one place that says which axes and sizes the tensors have: evoflash's own launches and
exported C++ are made of them too (operations/attention/forms/dense.py).
"""

import operator
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .description import CheckedCall, Form, Refused
from .plan import Frame, Plan

SIZES = ("batch", "heads", "kv_heads", "seq_q", "seq_kv")
# For each tensor its axes but the last, which is contiguous and has head_dim elements, and their sizes.
QUERY_AXES = {"batch": "batch", "head": "heads", "row": "seq_q"}
KEY_AXES = {"batch": "batch", "head": "kv_heads", "row": "seq_kv"}
TENSORS = {"q": QUERY_AXES, "k": KEY_AXES, "v": KEY_AXES, "o": QUERY_AXES}
POINTERS = ("lse", "workspace")
_pack_pointers = struct.Struct(f"{len(TENSORS) + len(POINTERS)}Q").pack_into
_MOST = 2**31 - 1
_MOST_SCALE = 1e6  # far below what float32 holds
_STRIDE_END = 2**39  # elements; the driver takes tensor maps with strides below 2^40 bytes
_ROW_ALIGNMENT = 8  # elements: rows begin at multiples of 16 bytes


@dataclass(frozen=True)
class Contract:
    """The calls that a kernel was compiled for."""

    dtype: str
    head_dim: int
    gqa_ratio: int
    causal: bool
    scale: float


def parse_contract(given: Mapping[str, Any]) -> Contract:
    """Of launch.json."""
    return Contract(
        dtype=str(given["dtype"]),
        head_dim=int(given["head_dim"]),
        gqa_ratio=int(given["gqa_ratio"]),
        causal=bool(given["causal"]),
        scale=float(given["scale"]),
    )


def check_call(
    name: str,
    contract: Contract,
    shape: Sequence[int],
    strides: Sequence[Sequence[int]],
    scale: float | None,
) -> CheckedCall:
    """The call, with strides as tensor maps take them. Refused for what was not verified."""
    sizes = dict(zip(SIZES, _whole_numbers(shape, SIZES, "a shape"), strict=True))
    batch, heads, kv_heads, seq_q, seq_kv = sizes.values()
    if heads != kv_heads * contract.gqa_ratio:
        raise Refused(
            f"{name} serves {contract.gqa_ratio} query heads a key/value head: {heads} heads over "
            f"{kv_heads} key/value heads need another kernel."
        )
    if max(batch * heads * seq_q, batch * kv_heads * seq_kv) > _MOST:
        raise Refused(f"{name} takes at most {_MOST} rows a tensor: split the batch.")
    if len(strides) != len(TENSORS):
        raise Refused(f"strides of {len(strides)} tensors: give those of q, k, v and o.")
    extents = {tensor: tuple(sizes[size] for size in axes.values()) for tensor, axes in TENSORS.items()}
    return CheckedCall(
        sizes,
        dict.fromkeys(TENSORS, contract.dtype),
        {tensor: (*known, contract.head_dim) for tensor, known in extents.items()},
        {
            tensor: _map_strides(tensor, extents[tensor], given, contract.head_dim)
            for tensor, given in zip(TENSORS, strides, strict=True)
        },
        {"scale": _check_scale(contract, scale)},
    )


def _check_scale(contract: Contract, scale: float | None) -> float:
    """The softmax scale, by default the contract's. Refused for what is no scale."""
    if scale is None:
        return contract.scale
    if not isinstance(scale, (int, float)) or not 0 < scale < _MOST_SCALE:
        raise Refused(f"a scale of {scale!r}: kernels take a number above 0 and below {_MOST_SCALE:g}.")
    return float(scale)


def _map_strides(name: str, extents: tuple[int, ...], given: Sequence[int], columns: int) -> tuple[int, ...]:
    """Those given; of an axis of one element, which has none that counts, that of a dense tensor."""
    known = _whole_numbers(given, tuple(TENSORS[name]), f"{name}'s strides", least=0)
    held, ends = {}, columns
    for _, extent, axis in sorted(zip(known, extents, range(3), strict=True)):
        stride = known[axis] if extent > 1 else -(-ends // _ROW_ALIGNMENT) * _ROW_ALIGNMENT
        if stride < ends or stride % _ROW_ALIGNMENT or stride >= _STRIDE_END:
            raise Refused(
                f"{name} has strides {tuple(known)} (batch, head, row) for extents {extents}: "
                f"rows of {columns} must not overlap, strides be multiples of {_ROW_ALIGNMENT}, "
                "all below 2^39."
            )
        held[axis], ends = stride, stride * (extent - 1) + ends
    return held[0], held[1], held[2]


def _whole_numbers(given: Sequence[int], names: Sequence[str], what: str, *, least: int = 1) -> list[int]:
    try:
        numbers = [operator.index(number) for number in given]
    except TypeError:
        numbers = []
    if len(numbers) != len(names) or min(numbers) < least or (least and max(numbers) > _MOST):
        raise Refused(f"{what} of {given!r}: give {', '.join(names)}, whole numbers from {least} up.")
    return numbers


class DensePlan(Plan):
    """A plan of this form."""

    def launch(self, q: int, k: int, v: int, o: int, lse: int, workspace: int, stream: int) -> None:
        """Enqueues a call on a CUstream of the plan's device; returns before it has run.

        Addresses are of device memory. lse may be 0: it is then not written. workspace is that of
        `workspace_bytes`, or 0 where that is 0. Refused for an address that no kernel takes, LaunchError
        where the driver refuses the launch.
        """
        if (q | k | v | o | workspace) & 15 or lse & 3 or not (q and k and v and o):
            raise self._bad(q, k, v, o, lse, workspace)
        if self.workspace_bytes and not workspace:
            raise self._bad(q, k, v, o, lse, workspace)
        try:
            frame = self._frames.pop()  # nobody else's until it is put back: list operations are atomic
        except IndexError:
            frame = Frame(self)
        _pack_pointers(frame.slots, 0, q, k, v, o, lse, workspace)
        self._send(frame, (q, k, v, o), stream)

    def _bad(self, *pointers: int) -> Refused:
        given = dict(zip((*TENSORS, *POINTERS), pointers, strict=True))
        if missing := [name for name in TENSORS if not given[name]]:
            return Refused(f"{self._name}: {', '.join(missing)} has no memory: give a device address.")
        if self.workspace_bytes and not given["workspace"]:
            return Refused(f"{self._name} needs a workspace of {self.workspace_bytes} bytes: give one.")
        wrong = [name for name, at in given.items() if at % (4 if name == "lse" else 16)]
        return Refused(
            f"{self._name}: {', '.join(wrong)} begins at an address that is no multiple of "
            f"{4 if wrong == ['lse'] else 16} bytes: copy it to one that is."
        )


DENSE = Form("dense", SIZES, TENSORS, POINTERS, ("scale",), parse_contract, check_call, DensePlan)
