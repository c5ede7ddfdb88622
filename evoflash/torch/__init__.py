"""evoflash's kernels in a PyTorch program: the best one known for each call, compiled when first needed.

`attention` is a function of tensors, as scaled_dot_product_attention; `load` gives one exported kernel.
`register` and `register_transformers` make kernels known to PyTorch's own scaled_dot_product_attention and to
Hugging Face Transformers.

    best  Chooses the kernel that a call in PyTorch gets
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from evoflash.runtime.launch import Kernel, Refused
from evoflash.runtime.torch_doors import register_sdpa
from evoflash.runtime.torch_doors import register_transformers as _register_transformers
from evoflash.runtime.torch_op import Attention
from evoflash.torch.best import Best

__all__ = ["Attention", "Refused", "attention", "load", "register", "register_transformers"]

# Operators have to be there before torch.compile looks for them.
_BEST = {
    (dtype, causal): Best(dtype, causal=causal) for dtype in ("fp16", "bf16") for causal in (False, True)
}
_FP16, _BF16 = ((_BEST[dtype, False], _BEST[dtype, True]) for dtype in ("fp16", "bf16"))


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    layout: str = "bhsd",
    return_lse: bool = False,
    out: Tensor | None = None,
    fallback: bool = False,
) -> Any:
    """Attention by the best kernel known for these tensors on their GPU.

    q is (batch, heads, seq_q, head_dim), k and v (batch, kv_heads, seq_kv, head_dim), or with layout="bshd"
    (batch, seq, heads, head_dim). A causal mask is aligned at the bottom right. Kernels come from the
    database (measured ones alone), else from the shipped archive: the one that was timed on the nearest shape
    among those compiled for the dtype, the mask, the head size and the ratio of heads. The first call of a
    kind compiles it. Otherwise as Attention.__call__: Refused, one line, for what no kernel computes, or with
    fallback=True PyTorch's own attention.
    """
    masked = causal and isinstance(q, Tensor) and q.dim() == 4 and q.shape[2 if layout == "bhsd" else 1] > 1
    pair = _BF16 if getattr(q, "dtype", None) is torch.bfloat16 else _FP16
    best = pair[1] if masked else pair[0]
    return best(q, k, v, scale=scale, layout=layout, return_lse=return_lse, out=out, fallback=fallback)


def load(path: str | Path) -> Attention:
    """An exported kernel, from a folder with launch.json (a hub folder's too) or such a JSON file.

    Refused where there is none, or its cubins are not those that it describes.
    """
    place = Path(path)
    built = place / "build" / "torch-cuda"
    return Attention(Kernel.read(built if built.is_dir() else place))


def register(name: str = "evoflash", kernel: Attention | None = None) -> None:
    """Make `kernel`, or the best one of each call, known to PyTorch under a name; activates nothing.

    torch.nn.attention.activate_flash_attention_impl(name) then makes scaled_dot_product_attention use it
    where that chooses flash attention; what no kernel computes goes to PyTorch's own flash attention.
    """
    register_sdpa(kernel or attention, name)


def register_transformers(name: str = "evo_attention", kernel: Attention | None = None) -> None:
    """Make `kernel`, or the best one of each call, known to Transformers as attn_implementation=name."""
    _register_transformers(kernel or attention, name)
