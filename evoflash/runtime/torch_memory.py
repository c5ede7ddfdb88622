"""Where a call's tensors lie, on which stream it goes, and the workspace that is kept for that stream."""

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .launch import Kernel

# A build of PyTorch without CUDA has none of these: no tensor there is on a GPU either.
stream_of: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 0)
device_now: Callable[[], int] = getattr(torch._C, "_cuda_getDevice", lambda: -1)
_is_captured: Callable[[], bool] = getattr(torch._C, "_cuda_isCurrentStreamCapturing", lambda: False)


class Workspaces:
    """One for each stream that is zero where it has to be: every call leaves it so, and calls of one stream
    come one after the other. May be used by many threads at once.

    It is no memory of PyTorch's: what is captured uses it in every replay, beside what is not captured.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int, bool, int], tuple[int, int]] = {}
        self._lock = threading.Lock()

    def address(self, kernel: Kernel, plan: Any, device: int, stream: int) -> int:
        """Of room for a call of the plan; 0 where it needs none."""
        size_bytes = int(plan.workspace_bytes)
        if not size_bytes:
            return 0
        key = device, stream, _is_captured(), int(plan.zeroed_bytes)
        with self._lock:
            room, address = self._kept.get(key, (0, 0))
            if room < size_bytes:
                room = max(size_bytes, 2 * room)
                address = kernel.zeros(room, device=device)
                self._kept[key] = room, address
            return int(address)


def overlap(a: Tensor, b: Tensor | None) -> bool:
    """Whether the memory of two tensors overlaps, from the first element of each to its last."""
    if b is None or not a.numel() or not b.numel():
        return False
    (a_begin, a_end), (b_begin, b_end) = _place(a), _place(b)
    return a_begin < b_end and b_begin < a_end


def _place(tensor: Tensor) -> tuple[int, int]:
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    begin = int(tensor.data_ptr())
    return begin, begin + int(tensor.element_size()) * (last + 1)
