"""The ways by which other programs reach a kernel: PyTorch's registry of flash attentions, and Transformers'.

Nothing here is active before its user says so: register_sdpa() only makes the name known to
torch.nn.attention.activate_flash_attention_impl(), register_transformers() to attn_implementation=.
What a kernel does not compute goes to what would have computed it without us, never to ourselves again.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .launch import Refused

Attend = Callable[..., Any]  # an Attention, or what is called as one
_FLASH = "_scaled_dot_product_flash_attention"


@dataclass(frozen=True)
class Registration:
    """A kernel in the place of PyTorch's flash attention, until remove()."""

    library: torch.library.Library

    def remove(self) -> None:
        """PyTorch's own kernel is what it was; a second time does nothing."""
        self.library._destroy()


def register_sdpa(attend: Attend, name: str = "evoflash") -> None:
    """Make the kernel known to PyTorch under a name.

    torch.nn.attention.activate_flash_attention_impl(name) then lets scaled_dot_product_attention use it
    wherever it chooses flash attention, and restore_flash_attention_impl() ends that. RuntimeError, one line,
    where this PyTorch has no such registry.
    """
    register = getattr(torch.nn.attention, "register_flash_attention_impl", None)
    if register is None or not hasattr(torch.library, "get_kernel"):
        raise RuntimeError(
            f"PyTorch {torch.__version__} has no register_flash_attention_impl: use 2.11 or later, or call "
            "the kernel itself."
        )
    register(name, register_fn=lambda: replace_flash(attend))


def replace_flash(attend: Attend, key: str = "CUDA") -> Registration:
    """Put the kernel in the place of PyTorch's flash attention for one dispatch key."""
    original = torch.library.get_kernel(f"aten::{_FLASH}", key)
    library = torch.library.Library("aten", "IMPL")

    def flash(
        keys: Any, query: Tensor, key: Tensor, value: Tensor, *rest: Any, scale: float | None = None
    ) -> Any:
        defaults: tuple[Any, ...] = (0.0, False, False)
        dropout_p, is_causal, return_debug_mask = rest + defaults[len(rest) :]
        # Flash attention's causal mask is aligned at the bottom right, as ours; rows without keys differ.
        has_keys = not is_causal or query.shape[2] <= key.shape[2]
        if dropout_p == 0.0 and not return_debug_mask and has_keys:
            try:
                out, lse = attend(query, key, value, causal=is_causal, scale=scale, return_lse=True)
            except Refused:
                pass
            else:
                return _as_flash_returns(query, key, out, lse)
        how = (query, key, value, dropout_p, is_causal, return_debug_mask)
        return original.call_boxed(keys, *how, scale=scale)

    with warnings.catch_warnings():
        # PyTorch notes that its kernel is overridden, which is what was asked for.
        warnings.filterwarnings("ignore", message="(?s).*verrid", category=UserWarning)
        library.impl(_FLASH, flash, key, with_keyset=True)
    return Registration(library)


def _as_flash_returns(query: Tensor, key: Tensor, out: Tensor, lse: Tensor) -> tuple[Any, ...]:
    """The operator's nine results; those of dropout are empty, as without dropout nobody reads them."""
    seed = query.new_empty((2,), dtype=torch.uint64)
    offset, mask = query.new_empty((), dtype=torch.uint64), query.new_empty((0,))
    return out, lse, None, None, query.shape[2], key.shape[2], seed, offset, mask


def register_transformers(attend: Attend, name: str = "evo_attention") -> None:
    """Make the kernel known to Hugging Face Transformers: attn_implementation=name then uses it.

    ValueError for a name with "flash" in it: Transformers takes such a one for the flash-attn package.
    Attention masks (padding, windows longer than the cache), dropout and position biases go to Transformers'
    "sdpa"; softcap and sinks, which that leaves out, are computed as they are defined. ImportError without
    transformers.
    """
    if "flash" in name:
        raise ValueError(f"'{name}': Transformers takes a name with 'flash' for the flash-attn package.")
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask

    def forward(
        module: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        *,
        dropout: float = 0.0,
        scaling: float | None = None,
        is_causal: bool | None = None,
        **more: Any,
    ) -> tuple[Tensor, None]:
        mask_is_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        causal = bool(mask_is_causal) and attention_mask is None and query.shape[2] > 1
        if (
            causal and key.shape[2] > query.shape[2]
        ):  # a prefill into a static cache, which is empty behind it
            key, value = key[:, :, : query.shape[2]], value[:, :, : query.shape[2]]
        if more.get("softcap") is not None or more.get("s_aux") is not None:
            drop = dropout if module.training else 0.0
            extras: dict[str, Any] = {"causal": causal, "scaling": scaling, "dropout": drop}
            return _with_extras(query, key, value, attention_mask, more, **extras), None
        if attention_mask is not None or dropout or more.get("position_bias") is not None:
            how = {"dropout": dropout, "scaling": scaling, "is_causal": is_causal, **more}
            theirs: tuple[Tensor, None] = sdpa_attention_forward(
                module, query, key, value, attention_mask, **how
            )
            return theirs
        out = attend(query, key, value, causal=causal, scale=scaling, fallback=True)
        return out.transpose(1, 2).contiguous(), None

    AttentionInterface.register(name, forward)
    AttentionMaskInterface.register(name, sdpa_mask)


def _with_extras(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    more: dict[str, Any],
    *,
    causal: bool,
    scaling: float | None,
    dropout: float,
) -> Tensor:
    """Attention with softcap (tanh(s / cap) * cap) and sinks (a score for each head that takes its share of
    the softmax and gives nothing), (batch, seq, heads, head_dim).
    """
    group = query.shape[1] // key.shape[1]
    keys, values = (t.repeat_interleave(group, dim=1) for t in (key, value))
    scores = query @ keys.transpose(2, 3) * (query.shape[3] ** -0.5 if scaling is None else scaling)
    if (cap := more.get("softcap")) is not None:
        scores = torch.tanh(scores / cap) * cap
    if causal:
        mask = torch.ones(scores.shape[2:], dtype=torch.bool, device=scores.device).tril()
    if mask is not None:
        lowest = torch.finfo(scores.dtype).min
        scores = scores.masked_fill(~mask, lowest) if mask.dtype == torch.bool else scores + mask
    columns = scores.shape[3]
    if (sinks := more.get("s_aux")) is not None:
        sink = sinks.to(scores.dtype).reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        scores = torch.cat((scores, sink), dim=3)
    shares = torch.softmax(scores.float(), dim=3)[..., :columns].to(query.dtype)
    shares = torch.nn.functional.dropout(shares, p=dropout, training=dropout > 0)
    return (shares @ values).transpose(1, 2).contiguous()
