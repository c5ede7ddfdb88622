"""PyTorch's scaled_dot_product_attention, restricted to one backend (flash, cuDNN, efficient or math).

The backend `flash` is FlashAttention-2. torch's `is_causal` aligns the mask top-left: where Sq differs from
Skv a bottom-right bias takes its place, and a single causal query, which sees everything, runs unmasked.
"""

import re
import warnings
from collections.abc import Iterator
from typing import Any

from evoflash.gpu.baselines.attention import attention_on
from evoflash.gpu.baselines.contender import BaselineAbsentError, LibraryCall, torch
from evoflash.gpu.timing.benchmark import Bench
from evoflash.operations.attention.forms import dense
from evoflash.operations.attention.workload import AttentionWorkload

_BACKENDS = {
    "sdpa_flash": "FLASH_ATTENTION",
    "sdpa_cudnn": "CUDNN_ATTENTION",
    "sdpa_efficient": "EFFICIENT_ATTENTION",
    "sdpa_math": "MATH",
}
_SCORES = 4  # of the size of its scores in fp32: what math holds at a time, about


def calls(name: str, bench: Bench) -> Iterator[LibraryCall]:
    """Grouped heads natively where the backend can; else keys and values are repeated beforehand, untimed."""
    library, w = torch(), attention_on(bench)
    _let_refusals_be_told_by_evoflash()
    if name == "sdpa_math":
        _check_room(library, w)
    for repeats in (False, True) if w.gqa_ratio > 1 else (False,):
        yield _attention(library, name, w, repeats=repeats)


def _let_refusals_be_told_by_evoflash() -> None:
    """No warnings of PyTorch as of this file's lines: where a backend does not take a shape there is one for
    each condition that this fails, in front of the exception, which becomes the reason why there is no row.

    From now on and in all threads, since a filter around each call would be timed with it.
    """
    warnings.filterwarnings("ignore", category=UserWarning, module=re.escape(__name__) + r"\Z")


def _check_room(library: Any, workload: AttentionWorkload) -> None:
    """The math backend writes its scores out: beside other contenders there must stay room for them."""
    w = workload
    needs = _SCORES * 4 * w.batch * w.heads * w.seq_q * w.seq_kv
    free, _ = library.cuda.mem_get_info()
    if needs > free // 4:
        raise BaselineAbsentError(f"its scores take about {needs / 2**30:.0f} GiB, too much of what is free")


def _attention(library: Any, name: str, workload: AttentionWorkload, *, repeats: bool) -> LibraryCall:
    functional, kernels = library.nn.functional, library.nn.attention
    backend = getattr(kernels.SDPBackend, _BACKENDS[name])
    options = _options(workload, repeats=repeats)

    def attend(q: Any, k: Any, v: Any) -> Any:
        with kernels.sdpa_kernel([backend]):
            return functional.scaled_dot_product_attention(q, k, v, **options)

    def repeat_heads(x: Any) -> Any:
        missing = workload.heads // x.shape[1]
        return x.repeat_interleave(missing, dim=1) if missing > 1 else x

    environment = {"grouped_heads": "repeated, untimed" if repeats else "native"}
    if name == "sdpa_cudnn":
        environment["cudnn"] = str(library.backends.cudnn.version())
    return LibraryCall(attend, environment, repeat_heads) if repeats else LibraryCall(attend, environment)


def _options(workload: AttentionWorkload, *, repeats: bool) -> dict[str, Any]:
    options: dict[str, Any] = {"scale": dense.scale(workload)}
    if workload.gqa_ratio > 1 and not repeats:
        options["enable_gqa"] = True
    if workload.causal and workload.seq_q == workload.seq_kv:
        options["is_causal"] = True
    elif workload.causal and workload.seq_q > 1:
        from torch.nn.attention.bias import causal_lower_right

        options["attn_mask"] = causal_lower_right(workload.seq_q, workload.seq_kv)
    return options
