"""The form of a call of the linear layer, y = x W^T: which tensors it takes, row by row, and their launch.

W may be of another type than x, with numbers that multiply it; a bias and a residual may be added. Which of
these a kernel has, its contract says; a tensor that it has not is no part of a call.
"""

import operator
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .description import CheckedCall, Form, Refused
from .plan import Frame, Plan

ROW_SIZES = ("m", "n", "k")
# For each tensor its axes but the last, which is contiguous, and their sizes.
ROW_TENSORS = {
    "x": {"row": "m"},
    "w": {"row": "n"},
    "w_scale": {"row": "n"},  # for each so many rows of W one
    "residual": {"row": "m"},
    "y": {"row": "m"},
}
_OTHER_POINTERS = ("bias", "workspace")
_pack_rows = struct.Struct(f"{len(ROW_TENSORS) + len(_OTHER_POINTERS)}Q").pack_into
_MOST_COLUMNS = 1 << 24  # of n and k
_K_STEP = 16  # k is a multiple of it
_ROW_END = 1 << 39  # of a stride


@dataclass(frozen=True)
class RowsContract:
    """The calls that a kernel was compiled for."""

    weights: str  # bf16; e4m3 with a scale for each block of W (fp8b128), or with one scale (fp8t)
    most_rows: int  # of x
    block: int  # rows and columns of W that share a scale
    bias: bool
    residual: bool

    @property
    def tensors(self) -> tuple[str, ...]:
        """Those of ROW_TENSORS that a call has, in that order."""
        has = {"w_scale": self.weights != "bf16", "residual": self.residual}
        return tuple(name for name in ROW_TENSORS if has.get(name, True))

    def scale_shape(self, n: int, k: int) -> tuple[int, int]:
        """Of what multiplies W of n rows and k columns."""
        return (1, 1) if self.weights == "fp8t" else (-(-n // self.block), -(-k // self.block))


def parse_rows_contract(given: Mapping[str, Any]) -> RowsContract:
    """Of launch.json."""
    return RowsContract(
        weights=str(given["dtype"]),
        most_rows=int(given["most_rows"]),
        block=int(given["block"]),
        bias=bool(given["bias"]),
        residual=bool(given["residual"]),
    )


def check_rows(
    name: str,
    contract: RowsContract,
    shape: Sequence[int],
    strides: Sequence[Sequence[int]],
    scale: float | None = None,
) -> CheckedCall:
    """The call of a shape (m, n, k), with (row,) strides of the contract's tensors, in elements. Refused for
    what was not verified.
    """
    m, n, k = _numbers(shape, 3, "a shape (m, n, k)")
    if scale is not None:
        raise Refused(f"{name} takes no scale but W's own: leave it away.")
    if m > contract.most_rows:
        raise Refused(f"{name} is compiled for up to {contract.most_rows} rows of x, not for {m}.")
    if max(n, k) > _MOST_COLUMNS or k % _K_STEP:
        raise Refused(f"{name}: n={n}, k={k}: both are at most 2^24, k is a multiple of {_K_STEP}.")
    if len(strides) != len(contract.tensors):
        raise Refused(f"strides of {len(strides)} tensors: give those of {', '.join(contract.tensors)}.")
    columns = {"x": k, "w": k, "w_scale": contract.scale_shape(n, k)[1], "residual": n, "y": n}
    steps = {"x": 8, "w": 8 if contract.weights == "bf16" else 16}  # elements that are 16 bytes
    known = dict.fromkeys(ROW_TENSORS, 0)
    for tensor, given in zip(contract.tensors, strides, strict=True):
        (stride,) = _numbers(given, 1, f"{tensor}'s stride")
        if not columns[tensor] <= stride < _ROW_END or stride % steps.get(tensor, 1):
            raise Refused(
                f"{tensor} has rows {stride} elements apart: they must not overlap, nor lie 2^39 apart"
                f"{', and begin at multiples of 16 bytes' if tensor in steps else ''}."
            )
        known[tensor] = stride
    rows = {"x": m, "w": n, "w_scale": contract.scale_shape(n, k)[0], "residual": m, "y": m}
    return CheckedCall(
        {"m": m, "n": n, "k": k},
        {"w": "bf16" if contract.weights == "bf16" else "e4m3", "w_scale": "fp32"},
        {tensor: (rows[tensor], columns[tensor]) for tensor in ROW_TENSORS},
        {tensor: (stride,) for tensor, stride in known.items()},
        {},
    )


def _numbers(given: Sequence[int], count: int, what: str) -> list[int]:
    try:
        numbers = [operator.index(number) for number in given]
    except TypeError:
        numbers = []
    if len(numbers) != count or min(numbers) < 1:
        raise Refused(f"{what} of {given!r}: give whole numbers from 1 up.")
    return numbers


class RowsPlan(Plan):
    """A plan of this form."""

    def launch(self, tensors: tuple[int, int, int, int, int], bias: int, workspace: int, stream: int) -> None:
        """Enqueues a call on a CUstream of the plan's device; returns before it has run.

        Addresses are of device memory, 0 for what the kernel has not: of the tensors x, w, w_scale, residual
        and y, and of a bias; workspace is that of
        `workspace_bytes`, or 0 where that is 0. Refused for an address that no kernel takes, LaunchError
        where the driver refuses the launch.
        """
        x, w, w_scale, residual, y = tensors
        if (x | w | workspace) & 15 or w_scale & 3 or (bias | residual | y) & 1 or not (x and w and y):
            raise Refused(
                f"{self._name}: x, w and y are device addresses; x, w and the workspace begin at multiples "
                "of 16 bytes, a scale of 4, the others of 2."
            )
        if self.workspace_bytes and not workspace:
            raise Refused(f"{self._name} needs a workspace of {self.workspace_bytes} bytes: give one.")
        try:
            frame = self._frames.pop()  # nobody else's until it is put back: list operations are atomic
        except IndexError:
            frame = Frame(self)
        _pack_rows(frame.slots, 0, *tensors, bias, workspace)
        self._send(frame, tensors, stream)


ROWS = Form("linear", ROW_SIZES, ROW_TENSORS, _OTHER_POINTERS, (), parse_rows_contract, check_rows, RowsPlan)
