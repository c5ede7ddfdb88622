"""Attention of other libraries: a file for each, which says how the library is called.

flash_attention_3  FlashAttention-3, the flash-attention repository's Hopper kernels, as shipped
flash_attention_4  FlashAttention-4 (`flash-attn-4`, in CuTe DSL), as shipped and with the fastest of several
                   settings
flashinfer         FlashInfer's prefill, by its FlashAttention-3 template on Hopper and its FlashAttention-2
                   one elsewhere
sdpa               PyTorch's scaled_dot_product_attention, restricted to one backend (flash, cuDNN, efficient
                   or math)
triton             A FlashAttention-2 style forward kernel in Triton, with the fastest of a few tiles on this
                   workload
triton_kernel      The Triton kernel of the baseline `triton`
xformers           xFormers' memory-efficient attention, by the operator that its own dispatch chooses
"""

from typing import Any

from evoflash.gpu.baselines.contender import BaselineAbsentError
from evoflash.gpu.timing.benchmark import Bench
from evoflash.operations.attention.workload import AttentionWorkload


def attention_on(bench: Bench) -> AttentionWorkload:
    """The bench's workload. BaselineAbsentError where it is not attention: the libraries know no other."""
    if not isinstance(bench.workload, AttentionWorkload):
        raise BaselineAbsentError(f"it computes attention, not {bench.workload.operation}")
    return bench.workload


def rows_first(tensor: Any) -> Any:
    """(B, H, S, D) as the view (B, S, H, D), and back."""
    return tensor.transpose(1, 2)


def rows_first_dense(tensor: Any) -> Any:
    """The same, dense: for a library that refuses strides."""
    return rows_first(tensor).contiguous()
