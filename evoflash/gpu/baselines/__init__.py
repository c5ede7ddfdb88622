"""Attention of other libraries, timed by the same code on the same memory as the candidates. Judges nothing.

Each library is optional: where it is missing or has no kernel for a workload it is absent, with the reason.
Its output is judged as a candidate's is, in gpu/process/finals.py.

    contender          Calls a library's attention on the memory of a bench
    flash_attention_3  FlashAttention-3, the flash-attention repository's Hopper kernels, as shipped
    flash_attention_4  FlashAttention-4 (`flash-attn-4`, in CuTe DSL), as shipped and with the fastest of
                       several settings
    flashinfer         FlashInfer's prefill, by its FlashAttention-3 template on Hopper and its
                       FlashAttention-2 one elsewhere
    sdpa               PyTorch's scaled_dot_product_attention, restricted to one backend (flash, cuDNN,
                       efficient or math)
    triton             A FlashAttention-2 style forward kernel in Triton, with the fastest of a few tiles on
                       this workload
    triton_kernel      The Triton kernel of the baseline `triton`
    xformers           xFormers' memory-efficient attention, by the operator that its own dispatch chooses
"""

import importlib
from collections.abc import Iterator
from typing import Any

from evoflash.gpu.baselines.contender import (
    BaselineAbsentError,
    BaselineFailedError,
    LibraryCall,
    LibraryContender,
    attempt,
    check_device,
    reason_of,
)
from evoflash.gpu.timing.benchmark import Bench

__all__ = [
    "DEFAULT",
    "NAMES",
    "OPTIONAL",
    "BaselineAbsentError",
    "BaselineFailedError",
    "LibraryContender",
    "baseline",
]

_FILES = {
    "sdpa_flash": "sdpa",
    "sdpa_cudnn": "sdpa",
    "sdpa_efficient": "sdpa",
    "sdpa_math": "sdpa",
    "triton": "triton",
    "fa3": "flash_attention_3",
    "fa4": "flash_attention_4",
    "fa4_tuned": "flash_attention_4",
    "flashinfer": "flashinfer",
    "xformers": "xformers",
}
NAMES = tuple(_FILES)
# What finals time beside the candidates: math is slow, xFormers brings FlashAttention-2 once more, and
# Triton would have to compile and try eight kernels that were the fastest nowhere (docs/h200.md).
DEFAULT = tuple(name for name in NAMES if name not in ("sdpa_math", "xformers", "triton"))
OPTIONAL = tuple(name for name, file in _FILES.items() if file != "sdpa")  # not PyTorch's own


def baseline(name: str, bench: Bench) -> LibraryContender:
    """A baseline that has run on the bench's workload, eagerly and from a graph.

    Raises BaselineAbsentError, whatever the library did, and BaselineFailedError where this process is lost.
    """
    with attempt(name):
        found = _first_that_runs(name, bench)
    if isinstance(found, str):
        raise BaselineAbsentError(found)
    return found


def _first_that_runs(name: str, bench: Bench) -> LibraryContender | str:
    """The contender, or why there is none: the reason of the first way of calling it, the natural one."""
    reasons: list[str] = []
    try:
        for attention in _attentions(name, bench):
            contender = LibraryContender(name, bench, attention)
            try:
                contender.try_out(bench)
            except BaselineAbsentError as refused:
                reasons.append(str(refused))
            else:
                return contender
    except BaselineFailedError:
        raise
    except (Exception, SystemExit) as error:  # while it was imported, or looked for its kernels
        check_device(name, error)
        reasons.append(reason_of(error))
    return reasons[0]


def _attentions(name: str, bench: Bench) -> Iterator[LibraryCall]:
    file: Any = importlib.import_module(f"evoflash.gpu.baselines.{_FILES[name]}")
    attentions: Iterator[LibraryCall] = file.attentions(name, bench)
    return attentions
