"""FlashInfer's prefill, by its FlashAttention-3 template on Hopper and its FlashAttention-2 one elsewhere.

One sequence goes to `single_prefill_with_kv_cache`, several to the ragged batch wrapper, planned beforehand
and untimed, as a serving engine does once for all layers. Its causal mask is bottom-right aligned. FlashInfer
compiles a kernel on its first use: minutes with few cores, then kept in its own cache.
"""

from collections.abc import Iterator
from typing import Any

from evoflash.extras import install
from evoflash.gpu.baselines.attention import attention_on
from evoflash.gpu.baselines.contender import LibraryCall, import_library, torch, version
from evoflash.gpu.timing.benchmark import Bench
from evoflash.operations.attention.forms import dense
from evoflash.operations.attention.workload import AttentionWorkload

_INSTALL = install("flashinfer")
_WORKSPACE_BYTES = 128 << 20  # what its documentation recommends


def calls(name: str, bench: Bench) -> Iterator[LibraryCall]:
    """The template for the GPU first; the older one where that refuses the workload."""
    del name
    library, w = import_library("flashinfer", _INSTALL), attention_on(bench)
    is_hopper = torch().cuda.get_device_capability()[0] == 9
    for backend in ("fa3", "fa2") if is_hopper else ("fa2",):
        yield _single(library, w, backend) if w.batch == 1 else _ragged_batch(library, w, backend)


def _single(library: Any, workload: AttentionWorkload, backend: str) -> LibraryCall:
    options = {"causal": workload.causal, "sm_scale": dense.scale(workload), "backend": backend}

    def attend(q: Any, k: Any, v: Any) -> Any:
        return library.single_prefill_with_kv_cache(q, k, v, **options)

    return _attention(attend, workload, f"{backend}, single prefill")


def _ragged_batch(library: Any, workload: AttentionWorkload, backend: str) -> LibraryCall:
    w, tensors = workload, torch()
    space = tensors.empty(_WORKSPACE_BYTES, dtype=tensors.uint8, device="cuda")
    wrapper = library.BatchPrefillWithRaggedKVCacheWrapper(space, "NHD", backend=backend)
    starts = [tensors.arange(w.batch + 1, dtype=tensors.int32) * rows for rows in (w.seq_q, w.seq_kv)]
    kind = tensors.float16 if w.dtype == "fp16" else tensors.bfloat16
    options = {"causal": w.causal, "sm_scale": dense.scale(w), "q_data_type": kind}
    wrapper.plan(*starts, w.heads, w.kv_heads, w.head_dim, **options)
    return _attention(wrapper.run, workload, f"{backend}, ragged batch")


def _attention(attend: Any, workload: AttentionWorkload, backend: str) -> LibraryCall:
    def heads_first(out: Any) -> Any:
        return out.unflatten(0, (workload.batch, workload.seq_q)).transpose(1, 2)

    environment = {"flashinfer-python": version("flashinfer-python") or "unknown", "backend": backend}
    return LibraryCall(attend, environment, _tokens, heads_first)


def _tokens(x: Any) -> Any:
    """(B, H, S, D) as (B * S, H, D): a view of one sequence, a copy of several."""
    return x.transpose(1, 2).flatten(0, 1)
