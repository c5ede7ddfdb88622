"""What PyTorch's own attention computes where a kernel does not, and which calls make no sense at all.

Bottom-right causal masks as the kernels have them, where scaled_dot_product_attention's is_causal is aligned
at the top left. Knows no kernel.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

_ROWS = 1024  # of the scores that are held at once for the logarithms of the sums


def why_nonsense(q: Any, k: Any, v: Any, out: Any, layout: str) -> str:
    """Why no attention is defined for these tensors; empty if one is. `out` may be None."""
    given = {"q": q, "k": k, "v": v} | ({} if out is None else {"out": out})
    if layout not in ("bhsd", "bshd"):
        return f"layout={layout!r}: use 'bhsd' or 'bshd'."
    for name, tensor in given.items():
        if not isinstance(tensor, Tensor):
            return f"{name} is a {type(tensor).__name__}: give a torch.Tensor."
        if tensor.dim() != 4:
            order = "heads, seq" if layout == "bhsd" else "seq, heads"
            return f"{name} has {tensor.dim()} dimensions: give (batch, {order}, head_dim)."
    return _why_shapes(q, k, v, 1 if layout == "bhsd" else 2) or _why_out(q, out)


def _why_shapes(q: Tensor, k: Tensor, v: Tensor, heads: int) -> str:
    if k.shape != v.shape:
        return f"k is {_sizes(k)} and v {_sizes(v)}: their shapes must be the same."
    if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        return f"q is {_sizes(q)} and k {_sizes(k)}: batch and head_dim must be the same."
    if 0 in q.shape or 0 in k.shape:
        return f"q is {_sizes(q)} and k {_sizes(k)}: a size is 0, there is nothing to compute."
    if q.shape[heads] % k.shape[heads]:
        return f"{q.shape[heads]} query heads are no multiple of {k.shape[heads]} key/value heads."
    if not q.device == k.device == v.device:
        return f"q is on {q.device}, k on {k.device} and v on {v.device}: one device is needed."
    return ""


def _why_out(q: Tensor, out: object) -> str:
    if not isinstance(out, Tensor):
        return ""
    if out.shape != q.shape or out.dtype != q.dtype or out.device != q.device:
        return (
            f"out is {_sizes(out)}, {str(out.dtype)[6:]} on {out.device}: it must be as q, {_sizes(q)}, "
            f"{str(q.dtype)[6:]} on {q.device}."
        )
    return "out requires a gradient: detach it." if out.requires_grad else ""


def _sizes(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape))


def by_sdpa(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool, scale: float | None, return_lse: bool = False
) -> tuple[Tensor, Tensor | None]:
    """PyTorch's attention of q (batch, heads, seq_q, head_dim), k and v (batch, kv_heads, seq_kv, head_dim).

    A row that sees no key gives 0 and -inf.
    """
    q, k, v = (_align(tensor) for tensor in (q, k, v))
    seq_q, seq_kv = q.shape[2], k.shape[2]
    unseen = max(0, seq_q - seq_kv) if causal else 0  # rows before the first that sees a key
    seeing = q[:, :, unseen:] if unseen else q
    is_square = _is(causal and seeing.shape[2] == seq_kv and seq_q > 1)
    has_groups = _is(q.shape[1] != k.shape[1])
    mask = None
    if causal and not is_square and seq_q > 1:
        mask = torch.ones(seq_q, seq_kv, dtype=torch.bool, device=q.device).tril(seq_kv - seq_q)
    result = scaled_dot_product_attention(
        seeing, k, v, attn_mask=mask, is_causal=is_square, scale=scale, enable_gqa=has_groups
    )
    if unseen:
        result = torch.cat((torch.zeros_like(q[:, :, :unseen]), result), dim=2)
    return result, _lse(q, k, causal, scale) if return_lse else None


def _is(condition: Any) -> bool:
    """A real bool: of sizes that torch.compile keeps symbolic a comparison is none, which PyTorch refuses."""
    if condition:  # noqa: SIM103 (makes the compiler decide, which bool(condition) does not)
        return True
    return False


def _align(tensor: Tensor) -> Tensor:
    """A copy where PyTorch's kernels would read beside the tensor: not at a multiple of 16 bytes."""
    if torch.compiler.is_compiling() or type(tensor) is not Tensor or not tensor.is_cuda:
        return tensor
    return tensor.clone() if tensor.data_ptr() % 16 else tensor


def _lse(q: Tensor, k: Tensor, causal: bool, scale: float | None) -> Tensor:
    """float32 (batch, heads, seq_q), in blocks of rows."""
    seq_q, seq_kv = q.shape[2], k.shape[2]
    by = q.shape[3] ** -0.5 if scale is None else scale
    keys = k.float().repeat_interleave(q.shape[1] // k.shape[1], dim=1).transpose(2, 3)
    blocks = []
    for begin in range(0, seq_q, _ROWS):
        scores = q[:, :, begin : begin + _ROWS].float() @ keys * by
        if causal:
            seen = torch.ones(scores.shape[2:], dtype=torch.bool, device=q.device)
            scores = scores.masked_fill(~seen.tril(seq_kv - seq_q + begin), float("-inf"))
        blocks.append(scores.logsumexp(dim=3))
    return torch.cat(blocks, dim=2)


def into(out: Tensor | None, result: tuple[Tensor, Tensor | None]) -> tuple[Tensor, Tensor | None]:
    """The result, copied to `out` where there is one."""
    return result if out is None else (out.copy_(result[0]), result[1])
