"""Several exported kernels as one function of PyTorch tensors; PyTorch computes what they do not.

Only the standard library, torch and the runtime's own modules. Forward only. torch_op.py launches.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from .dispatch import FALLBACK, Dispatcher
from .launch import Refused
from .packaged import check_package, read_package
from .torch_fallback import by_sdpa, into, why_nonsense
from .torch_op import DTYPES, Attention

_NAMES = {dtype: name for name, dtype in DTYPES.items()}


class Portfolio:
    """Call it with tensors. `members` are its kernels, numbered as in the rule of `description`."""

    def __init__(self, description: Mapping[str, Any], members: Sequence[Attention]) -> None:
        """Refused for a description of another format."""
        check_package(description)
        self.description, self.members = description, tuple(members)
        self.dispatcher = Dispatcher(description["rule"])

    @classmethod
    def read(cls, folder: str | Path) -> "Portfolio":
        """Of an exported folder. Refused where a file is missing, damaged or not the exported one."""
        description, kernels = read_package(folder)
        return cls(description, [Attention(kernel) for kernel in kernels])

    def __repr__(self) -> str:
        return f"<evoflash portfolio of {len(self.members)} kernels for {self.description['gpu']}>"

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        causal: bool | None = None,
        scale: float | None = None,
        layout: str = "bhsd",
        return_lse: bool = False,
        out: Tensor | None = None,
        fallback: bool = True,
    ) -> Any:
        """softmax(q k^T * scale) v of q (batch, heads, seq_q, head_dim), k and v (batch, kv_heads, seq_kv,
        head_dim), or with layout="bshd" of (batch, seq, heads, head_dim).

        `causal` None is no mask; a causal one is aligned at the bottom right. Everything else is as in
        Attention, but for the default of `fallback`: what no kernel was chosen for PyTorch's
        scaled_dot_product_attention computes. With fallback=False that is Refused.
        """
        member = self.member(q, k, causal=bool(causal), layout=layout)
        if member is not None:
            return member(
                q, k, v, scale=scale, layout=layout, return_lse=return_lse, out=out, fallback=fallback
            )
        if why := why_nonsense(q, k, v, out, layout):
            raise Refused(why)
        if not fallback:
            raise Refused(f"no kernel was chosen for q {tuple(q.shape)} and k {tuple(k.shape)}, {q.dtype}.")
        return _by_pytorch((q, k, v), out, layout, return_lse, causal=bool(causal), scale=scale)

    def member(self, q: Tensor, k: Tensor, *, causal: bool, layout: str = "bhsd") -> Attention | None:
        """The kernel for such tensors; None where there is none, or where they are no attention's."""
        try:
            if layout == "bhsd":
                batch, heads, queries, head_dim = q.shape
                _, kv_heads, keys, _ = k.shape
            else:
                batch, queries, heads, head_dim = q.shape
                _, keys, kv_heads, _ = k.shape
            dtype = _NAMES[q.dtype]
        except (ValueError, KeyError, AttributeError):
            return None
        shape = (batch, heads, kv_heads, queries, keys)
        number = self.dispatcher.kernel(head_dim, dtype, causal, shape)
        return None if number == FALLBACK else self.members[number]


def _by_pytorch(
    tensors: tuple[Tensor, Tensor, Tensor],
    out: Tensor | None,
    layout: str,
    return_lse: bool,
    *,
    causal: bool,
    scale: float | None,
) -> Any:
    is_bshd = layout == "bshd"
    q, k, v = (each.transpose(1, 2) for each in tensors) if is_bshd else tensors
    to = out.transpose(1, 2) if is_bshd and out is not None else out
    found = by_sdpa(q, k, v, causal=causal, scale=scale, return_lse=return_lse)
    result, lse = into(to, found)
    if out is not None:
        result = out
    elif is_bshd:
        result = result.transpose(1, 2)
    return (result, lse) if return_lse else result


def as_fused(portfolio: Portfolio) -> Any:
    """The portfolio as torch_doors.py wants it: what it does not compute is Refused, unless asked else."""

    def attend(q: Tensor, k: Tensor, v: Tensor, **how: Any) -> Any:
        return portfolio(q, k, v, **{"fallback": False, **how})

    return attend
