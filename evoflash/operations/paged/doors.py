"""What exported files say of paged attention: how they are called, and by which engines' argument lists."""

from collections.abc import Mapping
from typing import Any

from evoflash.operation import PythonDoor

_USE = """# Put this file beside your program. It needs Python 3.10, PyTorch 2.11 and an NVIDIA driver
# of CUDA 12, or later ones.
#
#     from {module} import paged_attention
#     o = paged_attention(q, k_cache, v_cache, page_table, kv_lengths)
#     # q (rows, heads, head_dim); K and V (pages, page_size, kv_heads, head_dim), layout="HND" for (pages,
#     # kv_heads, page_size, head_dim), any strides; page_table (batch, pages) and kv_lengths (batch) int32
#     o, lse = paged_attention(q, k_cache, v_cache, page_table, kv_lengths, return_lse=True)
#     paged_attention(q, k_cache, v_cache, indices, page_indptr=indptr, last_page_len=last, out=o)
#
# As vLLM calls FlashAttention, and as FlashInfer's BatchDecodeWithPagedKVCacheWrapper is used:
#
#     from {module} import flash_attn_varlen_func, flashinfer_decode_run, flashinfer_decode_wrapper
"""
_HUB_USE = """```python
from pathlib import Path
from kernels import get_local_kernel

kernel = get_local_kernel(Path("this/folder"))
o = kernel.paged_attention(q, k_cache, v_cache, page_table, kv_lengths)
# q (rows, heads, head_dim); K and V (pages, page_size, kv_heads, head_dim), with any strides;
# page_table (batch, pages) and kv_lengths (batch) int32
```

`flash_attn_varlen_func` has the arguments by which vLLM calls FlashAttention with a `block_table`, and
`flashinfer_decode_wrapper` makes what FlashInfer's `BatchDecodeWithPagedKVCacheWrapper` is, with `plan` and
`run`. What the kernel does not compute (another head dimension, dtype or GPU, a window that it was not
compiled for, gradients) it refuses with a `Refused` of one line.
"""
_ADAPTERS = {
    "flash_attn_varlen_func": ("paged_adapters", "flash_attn_varlen"),
    "flashinfer_decode_run": ("paged_adapters", "flashinfer_run"),
    "flashinfer_decode_wrapper": ("paged_adapters", "flashinfer_wrapper"),
}
DOORS: Mapping[str, PythonDoor] = {
    "torch": PythonDoor(
        "Attention on paged caches for PyTorch",
        ("torch_memory", "torch_paged", "paged_adapters"),
        ("torch_paged", "PagedAttention"),
        _USE,
        {},
        _HUB_USE,
        "paged_attention(q, k_cache, v_cache, page_table, kv_lengths=None, *, ...)",
        _ADAPTERS,
    ),
}
NO_DOOR: Mapping[str, str] = {
    "cupy": "its function is PyTorch's: use --kind torch, or --kind cubin, which takes addresses",
    "solution": "FlashInfer's traces have no place for windows, caps and sinks: use --kind torch, whose "
    "flashinfer_decode_wrapper is used as FlashInfer's own",
}


def computes(contract: Mapping[str, Any]) -> str:
    names = {"window": "a window", "softcap": "a softcap", "sink": "sinks", "ragged": "rows end to end"}
    features = [words for name, words in names.items() if contract[name]]
    pages, rows = contract["page_unit"], contract["rows"]
    return (
        f"attention of {contract['dtype']} on paged caches, head_dim {contract['head_dim']}, "
        f"{contract['gqa_ratio']} query heads on each key/value head, {rows} query row{'s' * (rows > 1)} a "
        f"sequence at most, pages of {'any size' if pages == 1 else f'a multiple of {pages} keys'}"
        f"{', with ' if features else ''}{', '.join(features)}; causal, forward only"
    )
