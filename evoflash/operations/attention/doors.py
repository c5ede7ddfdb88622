"""What exported files say of attention: how they are called, and the Solution that flashinfer-bench takes."""

from collections.abc import Mapping
from typing import Any

from evoflash.operation import PythonDoor, SolutionForm
from evoflash.operations.attention.workload import AttentionWorkload

_CUPY_USE = """\
# Put this file beside your program. It needs Python 3.10, CuPy and an NVIDIA driver of CUDA 12, or
# later ones, and no compiler.
#
#     from {module} import attention
#     out = attention(q, k, v)                  # CuPy arrays, (batch, heads, rows, head_dim)
#     out = attention(q, k, v, layout="bshd")   # (batch, rows, heads, head_dim)
#     attention(q, k, v, out=out, lse=lse, scale=scale, stream=stream)
#
# Arrays of other libraries that lie on the GPU do as well. What the kernel was not verified for ends in a
# ValueError of one line.
"""
_TORCH_USE = """# Put this file beside your program. It needs Python 3.10, PyTorch 2.11 and an NVIDIA driver
# of CUDA 12, or later ones.
#
#     from {module} import attention
#     out = attention(q, k, v)                  # (batch, heads, seq, head_dim), as PyTorch's own attention
#     out = attention(q, k, v, layout="bshd")   # (batch, seq, heads, head_dim)
#     out, lse = attention(q, k, v, return_lse=True)
#     out = attention(q, k, v, fallback=True)   # what the kernel does not compute, PyTorch computes
#
#     register_sdpa(attention, "mine")          # torch.nn.attention.activate_flash_attention_impl("mine")
#     register_transformers(attention, "mine")  # attn_implementation="mine"
"""
_HUB_USE = """```python
from pathlib import Path
from kernels import get_local_kernel

kernel = get_local_kernel(Path("this/folder"))
out = kernel.attention(q, k, v)                  # (batch, heads, seq, head_dim)
out = kernel.attention(q, k, v, layout="bshd")   # (batch, seq, heads, head_dim)
out = kernel.attention(q, k, v, fallback=True)   # what it does not compute, PyTorch computes
```

`kernel.register_sdpa(kernel.attention, "mine")` makes it known to
`torch.nn.attention.activate_flash_attention_impl`, `kernel.register_transformers(kernel.attention, "mine")`
to `attn_implementation="mine"`. What it does not compute (another dtype, head size, mask or GPU, gradients)
it refuses with a `Refused` of one line.
"""
_SIGNATURE = (
    'attention(q, k, v, *, causal=None, scale=None, layout="bhsd", return_lse=False, out=None, '
    "fallback=False)"
)
# Of a package with several kernels.
_PACKAGE = '''"""Attention for PyTorch: {kernels} for {gpu}, chosen by evoflash for {shapes}.

{chosen_by}

    from {name} import attention
    out = attention(q, k, v, causal=True)         # (batch, heads, seq, head_dim); layout="bshd" for the other
    out, lse = attention(q, k, v, return_lse=True)

What no kernel was chosen for PyTorch's scaled_dot_product_attention computes; fallback=False refuses it.
portfolio.json has the kernels, their times and the rule by which the dispatcher goes.
"""

from pathlib import Path

from . import torch_doors
from .launch import Refused
from .torch_portfolio import Portfolio, as_fused

__all__ = ["Portfolio", "Refused", "attention", "register_sdpa", "register_transformers"]

attention = Portfolio.read(Path(__file__).parent)


def register_sdpa(name="{name}"):
    """For torch.nn.attention.activate_flash_attention_impl(name)."""
    torch_doors.register_sdpa(as_fused(attention), name)


def register_transformers(name="{name}"):
    """For Transformers' attn_implementation=name."""
    torch_doors.register_transformers(as_fused(attention), name)
'''
_TORCH_MODULES = ("torch_fallback", "torch_call", "torch_operators", "torch_op", "torch_doors")
DOORS: Mapping[str, PythonDoor] = {
    "cupy": PythonDoor(
        "Attention for CuPy", ("array_attention",), ("array_attention", "Attention"), _CUPY_USE
    ),
    "torch": PythonDoor(
        "Attention for PyTorch",
        _TORCH_MODULES,
        ("torch_op", "Attention"),
        _TORCH_USE,
        {"register_sdpa": "torch_doors", "register_transformers": "torch_doors"},
        _HUB_USE,
        _SIGNATURE,
    ),
    "portfolio": PythonDoor(
        "Attention for PyTorch",
        (*_TORCH_MODULES, "dispatch", "packaged", "torch_portfolio"),
        ("torch_portfolio", "Portfolio"),
        _PACKAGE,
    ),
}


def computes(contract: Mapping[str, Any]) -> str:
    mask = "causal, aligned at the bottom right" if contract["causal"] else "no mask"
    ratio = contract["gqa_ratio"]
    heads = "one query head" if ratio == 1 else f"{ratio} query heads"
    return (
        f"attention of {contract['dtype']}, head_dim {contract['head_dim']}, {mask}, "
        f"{heads} on each key/value head; forward only"
    )


# ---- a Solution of flashinfer-bench

_RUN = '''

def run(q, k, v, o, lse):
    """Writes o and lse: flashinfer-bench's call, outputs last."""
    attention(q, k, v, out=o, lse=lse)
'''
_REFERENCE = """\
import math
import torch


def run(q, k, v):
    heads, kv_heads = q.shape[1], k.shape[1]
    k, v = (x.float().repeat_interleave(heads // kv_heads, dim=1) for x in (k, v))
    scores = q.float() @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if {causal}:
        seq_q, seq_kv = scores.shape[-2:]
        seen = torch.ones(seq_q, seq_kv, dtype=torch.bool, device=q.device).tril(seq_kv - seq_q)
        scores = scores.masked_fill(~seen, float("-inf"))
    lse = torch.logsumexp(scores, dim=-1)
    weights = torch.exp(scores - lse.unsqueeze(-1)).nan_to_num(0.0)
    return (weights @ v).to(q.dtype), lse
"""
_DTYPES = {"fp16": "float16", "bf16": "bfloat16"}


def definition(w: AttentionWorkload) -> dict[str, Any]:
    """Dense attention with heads, head dimension, dtype and mask fixed, lengths free. None of
    flashinfer-bench's own definitions is dense.
    """
    mask = "causal" if w.causal else "full"
    dtype = _DTYPES[w.dtype]
    query = {"shape": ["batch", "heads", "seq_q", "head_dim"], "dtype": dtype}
    key = {"shape": ["batch", "kv_heads", "seq_kv", "head_dim"], "dtype": dtype}
    return {
        "name": f"gqa_dense_{mask}_h{w.heads}_kv{w.kv_heads}_d{w.head_dim}_{w.dtype}",
        "op_type": "gqa_dense",
        "description": "Attention of dense tensors; a causal mask is aligned at the bottom right.",
        "axes": {
            "heads": {"type": "const", "value": w.heads},
            "kv_heads": {"type": "const", "value": w.kv_heads},
            "head_dim": {"type": "const", "value": w.head_dim},
            **{name: {"type": "var"} for name in ("batch", "seq_q", "seq_kv")},
        },
        "inputs": {"q": query, "k": key, "v": key},
        "outputs": {"o": query, "lse": {"shape": ["batch", "heads", "seq_q"], "dtype": "float32"}},
        "reference": _REFERENCE.format(causal=w.causal),
    }


SOLUTION = SolutionForm(
    door="cupy",
    run=_RUN,
    definition=definition,
    variants=lambda workload: (workload,),
    is_destination_passed=True,
    not_routed="FlashInfer tells a Solution for attention no mask, window, softcap or scale, so that it "
    "would be wrong without a word: use --kind torch and its register_sdpa, or --kind solution",
)
