"""What calls of one shape share: the plan, how one is enqueued, and whether a call is such a one.

A guard compares all that launching depends on. Its yes also means that nothing but the launch has to be told
of the call: no gradient is asked for, and no autocast, functorch transform, dispatch mode or tracing is on.
Decides nothing of dtypes and masks.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .launch import Refused

Guard = Callable[..., bool]  # of the tensors, in their order

# What torch.compile guards its graphs with: all of it in one call in C++, a third of the time that Python
# takes. It is none of PyTorch's public names, so it is used only in the versions that it was tried in.
_TRIED = ("2.11.", "2.13.")
_is_grad_enabled = torch.is_grad_enabled
_is_any_autocast = torch._C._is_any_autocast_enabled
_is_functorch = torch._C._are_functorch_transforms_active
_is_tracing = torch._C._is_tracing
_dispatch_modes = torch._C._len_torch_dispatch_stack
_bytes = torch.uint8
# A build of PyTorch without CUDA has none.
_raw_stream: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 0)


class Call:
    """What all calls of one shape, memory order and scale share."""

    __slots__ = ("device", "extents", "launch", "lse_shape", "owner", "workspace_bytes", "zeroed_bytes")

    def __init__(self, plan: Any, owner: Any, tensors: tuple[Tensor, ...]) -> None:
        self.launch, self.owner = plan.launch, owner
        self.workspace_bytes, self.zeroed_bytes = int(plan.workspace_bytes), int(plan.zeroed_bytes)
        self.device, self.lse_shape = tensors[0].get_device(), tensors[0].shape[:3]
        self.extents = tuple(_extent(tensor) for tensor in tensors)  # of q, k, v and the output, in bytes

    def enqueue(self, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor | None) -> None:
        """Launch on the current stream of the device, which is the current one. Refused for a tensor that
        does not begin at a multiple of 16 bytes.
        """
        stream, workspace, room = _raw_stream(self.device), 0, None
        if self.zeroed_bytes:
            workspace, room = self.owner.zeroed(self, stream)
        elif self.workspace_bytes:
            room = torch.empty(self.workspace_bytes, dtype=_bytes, device=q.device)
            workspace = room.data_ptr()
        self.launch(
            q.data_ptr(),
            k.data_ptr(),
            v.data_ptr(),
            out.data_ptr(),
            0 if lse is None else lse.data_ptr(),
            workspace,
            stream,
        )

    def check_apart(self, q: Tensor, k: Tensor, v: Tensor, out: Tensor) -> None:
        """Refused where the output's memory overlaps an input's: other blocks may not have read that yet."""
        begin = out.data_ptr()
        end = begin + self.extents[3]
        for name, tensor, extent in zip("qkv", (q, k, v), self.extents, strict=False):
            at = tensor.data_ptr()
            if at < end and begin < at + extent:
                raise Refused(f"out overlaps {name} in memory: give a tensor of its own.")


class Recent:
    """A call that was made: the guard of its tensors, and what else was asked."""

    __slots__ = ("asked", "call", "guard")

    def __init__(self, asked: object, guard: Guard, call: Call) -> None:
        self.asked, self.guard, self.call = asked, guard, call


def _extent(tensor: Tensor) -> int:
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
    if not torch.__version__.startswith(_TRIED):
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
