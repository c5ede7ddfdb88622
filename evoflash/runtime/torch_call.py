"""What calls of one shape share: the plan, their memory, the launch; and whether a call is such a one.

A guard compares all that launching depends on. Its yes also means that nothing but the launch has to be told
of the call: no gradient is asked for, and no autocast, functorch transform, dispatch mode or tracing is on.
Decides nothing of dtypes and masks.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .launch import Refused

Guard = Callable[..., bool]  # of the tensors, in their order
Memory = Callable[[tuple[int, ...], tuple[int, ...], torch.dtype], Tensor]  # of a shape, strides and a dtype

# What torch.compile guards its graphs with: all of it in one call in C++, a third of the time that Python
# takes; and what its code takes memory with, from the same allocator without the dispatcher. They are none of
# PyTorch's public names, so they are used only in the versions that they were tried in.
_TRIED = ("2.11.", "2.13.")
_IS_TRIED = torch.__version__.startswith(_TRIED)
_is_grad_enabled = torch.is_grad_enabled
_is_any_autocast = torch._C._is_any_autocast_enabled
_is_functorch = torch._C._are_functorch_transforms_active
_is_tracing = torch._C._is_tracing
_dispatch_modes = torch._C._len_torch_dispatch_stack
# A build of PyTorch without CUDA has none.
_raw_stream: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 0)


class Call:
    """What all calls of one shape, memory order and scale share."""

    __slots__ = (
        "bytes",
        "device",
        "launch",
        "new_lse",
        "new_workspace",
        "owner",
        "workspace_bytes",
        "zeroed_bytes",
    )

    def __init__(self, plan: Any, owner: Any, tensors: tuple[Tensor, ...]) -> None:
        q = tensors[0]
        batch, heads, rows, _ = q.shape
        self.launch, self.owner = plan.launch, owner
        self.workspace_bytes, self.zeroed_bytes = int(plan.workspace_bytes), int(plan.zeroed_bytes)
        self.device, new = q.get_device(), memory_of(q.device)
        self.new_lse = partial(new, (batch, heads, rows), (heads * rows, rows, 1), torch.float32)
        self.new_workspace = partial(new, (self.workspace_bytes,), (1,), torch.uint8)
        self.bytes = tuple(_span(tensor) for tensor in tensors)  # of q, k, v and the output

    def enqueue(
        self, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor | None, *, is_given: bool
    ) -> None:
        """Launch on the current stream of the device, which is the current one. Refused for a tensor that
        does not begin at a multiple of 16 bytes, and for an output that is given and overlaps an input.
        """
        at = q.data_ptr(), k.data_ptr(), v.data_ptr(), out.data_ptr()
        if is_given:
            self._check_apart(*at)
        stream, workspace, room = _raw_stream(self.device), 0, None
        if self.zeroed_bytes:
            workspace, room = self.owner.zeroed_workspace(self, stream)
        elif self.workspace_bytes:
            room = self.new_workspace()
            workspace = room.data_ptr()
        self.launch(*at, 0 if lse is None else lse.data_ptr(), workspace, stream)

    def _check_apart(self, q: int, k: int, v: int, out: int) -> None:
        """Refused where the output's memory overlaps an input's: other blocks may not have read that yet."""
        of_q, of_k, of_v, of_out = self.bytes
        end = out + of_out
        # Written out: it is a part of every call with out=, and a loop takes three times as long.
        overlaps = q < end and out < q + of_q, k < end and out < k + of_k, v < end and out < v + of_v
        if True in overlaps:
            name = "qkv"[overlaps.index(True)]
            raise Refused(f"out overlaps {name} in memory: give a tensor of its own.")


class Recent:
    """A call that was made: the guard of its tensors, what else was asked, and memory like its output's."""

    __slots__ = ("asked", "call", "guard", "new_out")

    def __init__(self, asked: object, guard: Guard, call: Call, out: Tensor) -> None:
        self.asked, self.guard, self.call = asked, guard, call
        self.new_out = partial(memory_of(out.device), tuple(out.shape), out.stride(), out.dtype)


def memory_of(device: torch.device) -> Memory:
    """Takes memory on the device, which must be the current one; what is in it is not defined."""
    name = f"_empty_strided_{device.type}"
    if _IS_TRIED and hasattr(torch._C._dynamo.guards, name):
        found: Memory = getattr(torch._C._dynamo.guards, name)
        return found
    return lambda shape, strides, dtype: torch.empty_strided(shape, strides, dtype=dtype, device=device)


def _span(tensor: Tensor) -> int:
    """Bytes from its first element to behind its last."""
    last: int = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return int(tensor.element_size()) * (last + 1)


def is_plain(*tensors: Tensor) -> bool:
    """Whether nothing but a launch has to be told of a call with these tensors."""
    if any(type(tensor) is not Tensor for tensor in tensors):
        return False
    if _is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return False
    return not (_dispatch_modes() or _is_any_autocast() or _is_functorch() or _is_tracing())


def guard_of(*tensors: Tensor) -> Guard:
    """A guard for calls as this one, whose tensors are plain now."""
    if not _IS_TRIED:
        return _in_python(tensors)
    from torch._C._dynamo.guards import TensorGuards

    guard: Guard = TensorGuards(
        *tensors,
        dynamic_dims_sizes=[list(tensor.shape) for tensor in tensors],
        dynamic_dims_strides=[list(tensor.stride()) for tensor in tensors],
    ).check
    return guard


def _in_python(tensors: tuple[Tensor, ...]) -> Guard:
    known = _facts(tensors)
    return lambda *given: is_plain(*given) and _facts(given) == known


def _facts(tensors: tuple[Tensor, ...]) -> list[Any]:
    return [(t.shape, t.stride(), t.dtype, t.get_device()) for t in tensors]
