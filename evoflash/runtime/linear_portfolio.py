"""Several exported kernels of the linear layer as one function of PyTorch tensors. PyTorch computes the rest.

Only the standard library, torch and the runtime's own modules. Forward only. torch_linear.py launches.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .description import Refused
from .dispatch import FALLBACK, Dispatcher
from .packaged import check_package, read_package
from .torch_linear import Linear


class LinearPortfolio:
    """Call it with tensors. `members` are its kernels, numbered as in the rule of `description`."""

    def __init__(self, description: Mapping[str, Any], members: Sequence[Linear]) -> None:
        """Refused for a description of another format."""
        check_package(description)
        self.description, self.members = description, tuple(members)
        self.dispatcher = Dispatcher(description["rule"])
        self._most_rows = sorted({each.most_rows for each in self.members})
        self._weights = {(each.dtype, each.scale_shape(256, 256)): each.weights for each in self.members}

    @classmethod
    def read(cls, folder: str | Path) -> "LinearPortfolio":
        """Of an exported folder. Refused where a file is missing, damaged or not the exported one."""
        description, kernels = read_package(folder)
        return cls(description, [Linear(kernel) for kernel in kernels])

    def __repr__(self) -> str:
        return f"<evoflash portfolio of {len(self.members)} kernels for {self.description['gpu']}>"

    def __call__(
        self,
        x: Tensor,
        w: Tensor,
        w_scale: Tensor | None = None,
        *,
        bias: Tensor | None = None,
        residual: Tensor | None = None,
        out: Tensor | None = None,
        fallback: bool = True,
    ) -> Tensor:
        """x wᵀ, as Linear says. What no kernel was chosen for PyTorch computes, of a W in 8 bits in float32;
        with fallback=False that is Refused.
        """
        member = self.member(x, w, w_scale, bias, residual)
        if member is not None:
            try:
                return member(x, w, w_scale, bias=bias, residual=residual, out=out)
            except Refused:
                if not fallback:
                    raise
        elif not fallback:
            raise Refused(f"no kernel was chosen for x {tuple(x.shape)} and w {tuple(w.shape)}, {w.dtype}.")
        result = by_pytorch(x, w, w_scale, bias, residual)
        return result if out is None else out.copy_(result)

    def member(
        self,
        x: Tensor,
        w: Tensor,
        w_scale: Tensor | None = None,
        bias: Tensor | None = None,
        residual: Tensor | None = None,
    ) -> Linear | None:
        """The kernel for such tensors; None where there is none, or where they are no linear layer's."""
        if w.dim() != 2 or x.dim() < 1 or x.shape[-1] != w.shape[1]:
            return None
        rows = x.shape[:-1].numel()
        most = next((each for each in self._most_rows if each >= rows), 0)
        scale = (1, 1) if w_scale is not None and w_scale.numel() == 1 else (2, 2)
        # A W without scales has those shapes too: its dtype tells it apart.
        weights = self._weights.get((w.dtype, scale if w_scale is not None else (2, 2)))
        if not rows or not most or weights is None:
            return None
        key = weights, most, bias is not None, residual is not None
        number = self.dispatcher.find(key, (rows, *w.shape))
        return None if number == FALLBACK else self.members[number]


def by_pytorch(
    x: Tensor, w: Tensor, w_scale: Tensor | None, bias: Tensor | None, residual: Tensor | None
) -> Tensor:
    """The same by PyTorch, W in 8 bits multiplied out first: right, and slow."""
    if w_scale is not None:
        whole = w_scale.reshape(1, 1) if w_scale.numel() == 1 else w_scale
        if whole.numel() > 1:
            whole = whole.repeat_interleave(128, 0).repeat_interleave(128, 1)[: w.shape[0], : w.shape[1]]
        result = torch.nn.functional.linear(x.float(), w.float() * whole)
        result = result if bias is None else result + bias
        return (result if residual is None else result + residual).to(x.dtype)
    result = torch.nn.functional.linear(x, w, bias)
    return result if residual is None else result + residual
