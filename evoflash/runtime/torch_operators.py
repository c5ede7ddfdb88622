"""The operators of a kernel, by which torch.compile, CUDA graphs of it and torch.export know it.

Three for each kernel, in a namespace of its own, `evoflash_<id>`: attention gives the output, attention_lse
also the logarithms of the sums, attention_out writes to tensors that are given. All take tensors in the order
(batch, heads, seq, head_dim), with any strides. Library.define, not custom_op: it costs less in a call.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .launch import Refused
from .torch_fallback import by_sdpa, into

SCHEMAS = {
    "attention": "(Tensor q, Tensor k, Tensor v, float scale, bool fallback) -> Tensor",
    "attention_lse": "(Tensor q, Tensor k, Tensor v, float scale, bool fallback) -> (Tensor, Tensor)",
    "attention_out": (
        "(Tensor q, Tensor k, Tensor v, Tensor(a!) out, Tensor(b!)? lse, float scale, bool fallback) -> ()"
    ),
}


@dataclass(frozen=True)
class Operators:
    """What torch.ops holds of a kernel."""

    plain: Any
    lse: Any
    out: Any


def operators(attention: Any) -> Operators:
    """The operators of a torch_op.Attention, registered unless this process has them already.

    Equal names are equal kernels.
    """
    namespace = getattr(torch.ops, attention.name)
    if not hasattr(namespace, "_evoflash"):
        library = torch.library.Library(attention.name, "FRAGMENT")
        namespace._evoflash = library  # lives as long as the process: what is compiled may call it
        for name, schema in SCHEMAS.items():
            library.define(name + schema, tags=_tags())
            library.impl(name, _implementation(name, attention), "CUDA")
            torch.library.register_fake(f"{attention.name}::{name}", _FAKES[name], lib=library)
    return Operators(
        *(getattr(namespace, name).default for name in ("attention", "attention_lse", "attention_out"))
    )


def _tags() -> tuple[torch.Tag, ...]:
    # The output has the memory order of q: a compiler must not choose another one for the inputs.
    exact = getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)
    return exact, torch.Tag.pt2_compliant_tag


def _implementation(name: str, attention: Any) -> Any:
    def plain(q: Tensor, k: Tensor, v: Tensor, scale: float, fallback: bool) -> Tensor:
        out = torch.empty_like(q)
        _compute(attention, (q, k, v, out), None, scale, fallback)
        return out

    def lse(q: Tensor, k: Tensor, v: Tensor, scale: float, fallback: bool) -> tuple[Tensor, Tensor]:
        out, sums = _fake_lse(q, k, v, scale, fallback)
        _compute(attention, (q, k, v, out), sums, scale, fallback)
        return out, sums

    def out(q: Tensor, k: Tensor, v: Tensor, out: Tensor, *rest: Any) -> None:
        lse, scale, fallback = rest
        _compute(attention, (q, k, v, out), lse, scale, fallback)

    return {"attention": plain, "attention_lse": lse, "attention_out": out}[name]


def _compute(
    attention: Any, tensors: tuple[Tensor, ...], lse: Tensor | None, scale: float, fallback: bool
) -> None:
    """Write the output and, where it is asked for, the logarithms of the sums."""
    try:
        attention.compute(tensors, lse, scale)
    except Refused:
        if not fallback:
            raise
        q, k, v, out = tensors
        causal, has_lse = attention.causal, lse is not None
        result, sums = by_sdpa(q, k, v, causal=causal, scale=scale, return_lse=has_lse)
        into(out, (result, None))
        if lse is not None and sums is not None:
            lse.copy_(sums)


def _fake(q: Tensor, k: Tensor, v: Tensor, scale: float, fallback: bool) -> Tensor:
    return torch.empty_like(q)


def _fake_lse(q: Tensor, k: Tensor, v: Tensor, scale: float, fallback: bool) -> tuple[Tensor, Tensor]:
    return torch.empty_like(q), q.new_empty(q.shape[:3], dtype=torch.float32)


def _fake_out(*arguments: Any) -> None:
    return None


_FAKES: dict[str, Any] = {"attention": _fake, "attention_lse": _fake_lse, "attention_out": _fake_out}
