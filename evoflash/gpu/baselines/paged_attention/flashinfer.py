"""FlashInfer's decode on pages: XQA, and its native kernels on tensor cores and on CUDA cores.

`flashinfer_xqa` takes a table and lengths and plans nothing; with and without programmatic dependent launch,
whichever is faster. `flashinfer_decode` is the wrapper for batches, planned beforehand and untimed, as an
engine does once a step for all layers; the faster of its two kernels. FlashInfer compiles a kernel on its
first use: minutes with few cores, then kept in its own cache.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from evoflash.extras import install
from evoflash.gpu.baselines.contender import (
    BaselineAbsentError,
    LibraryCall,
    fastest_call,
    import_library,
    time_settings,
    torch,
    version,
)
from evoflash.gpu.baselines.paged_attention import Cache, cache_of, paged_on
from evoflash.gpu.timing.benchmark import Bench
from evoflash.operations.paged import form
from evoflash.operations.paged.workload import PagedWorkload

_INSTALL = install("flashinfer")
_WORKSPACE_BYTES = 128 << 20  # what its documentation recommends
# XQA keeps what several blocks merge in 16 bits, so that an output is rounded twice.
_OFF_BY_16_BITS = 6e-3
_TRYING_LIMIT_S = 280.0  # a kernel is compiled on its first use


def calls(name: str, bench: Bench) -> Iterator[LibraryCall]:
    """The faster way of calling it on the workload."""
    library, workload = import_library("flashinfer.decode", _INSTALL), paged_on(bench)
    if workload.seq_q > 1:
        raise BaselineAbsentError("it takes one query row a sequence; for more it wants a mask")
    if name == "flashinfer_xqa":
        settings, call_of = ("no early start", "early start"), partial(_xqa, library, workload)
    else:
        settings, call_of = ("tensor cores", "CUDA cores"), partial(_Native(library, workload).call)
    times_us, reasons = time_settings(
        name, bench, settings, call_of, protocol=bench.protocols[0], limit_s=_TRYING_LIMIT_S
    )
    if not times_us:
        raise BaselineAbsentError(reasons[0])
    yield fastest_call(times_us, call_of)


def _environment() -> dict[str, str]:
    return {"flashinfer-python": version("flashinfer-python") or "unknown"}


def _xqa(library: Any, workload: PagedWorkload, setting: str) -> LibraryCall:
    w, tensors = workload, torch()
    if w.softcap:
        raise BaselineAbsentError("XQA has no softcap")
    space = tensors.zeros(_WORKSPACE_BYTES, dtype=tensors.uint8, device="cuda")
    options = {"kv_layout": "NHD", "enable_pdl": setting == "early start"}

    def together(*given: Any) -> tuple[Any, ...]:
        cache = cache_of(w, given)
        sinks = () if cache.sinks is None else (cache.sinks.float(),)
        return cache.q, cache.k, cache.v, cache.table, cache.lengths, *sinks

    def attend(q: Any, k: Any, v: Any, table: Any, lengths: Any, *sinks: Any) -> Any:
        return library.xqa_batch_decode_with_kv_cache(
            q, (k, v), space, table, lengths, w.seq_kv, form.scale(w), 1.0, w.window - 1,
            tensors.empty_like(q), sinks=sinks[0] if sinks else None, **options,
        )  # fmt: skip

    return LibraryCall(attend, _environment(), together=together, rel_l2=_OFF_BY_16_BITS)


class _Native:
    """The wrapper for batches. Its plans stay as long as the baseline: captured calls read them."""

    def __init__(self, library: Any, workload: PagedWorkload) -> None:
        if workload.sink:
            raise BaselineAbsentError("its decode kernels have no sinks")
        self._library, self._workload = library, workload
        self._plans: dict[tuple[str, int, tuple[int, ...], bytes], Any] = {}

    def call(self, setting: str) -> LibraryCall:
        """On tensor cores, or on CUDA cores."""
        w = self._workload
        planned: dict[int, Any] = {}

        def together(*given: Any) -> tuple[Any, ...]:
            cache = cache_of(w, given)
            planned[cache.q.data_ptr()] = self._plan(setting, cache)
            return cache.q, cache.k, cache.v

        def attend(q: Any, k: Any, v: Any) -> Any:
            return planned[q.data_ptr()].run(q, (k, v), out=torch().empty_like(q))

        return LibraryCall(attend, _environment(), together=together, is_planned=True)

    def _plan(self, setting: str, cache: Cache) -> Any:
        w, tensors = self._workload, torch()
        lengths = cache.lengths.tolist()
        where = (setting, cache.q.data_ptr(), tuple(lengths), cache.table.cpu().numpy().tobytes())
        if where not in self._plans:
            pages = [-(-keys // w.page) for keys in lengths]
            ends = tensors.tensor([0, *pages], dtype=tensors.int32).cumsum(0).int()
            entries = tensors.cat([cache.table[at, :count] for at, count in enumerate(pages)])
            last = [
                keys - (count - 1) * w.page if count else 0
                for keys, count in zip(lengths, pages, strict=True)
            ]
            space = tensors.empty(_WORKSPACE_BYTES, dtype=tensors.uint8, device="cuda")
            wrapper = self._library.BatchDecodeWithPagedKVCacheWrapper(
                space,
                "NHD",
                use_tensor_cores=setting == "tensor cores",
                backend="fa2" if setting == "tensor cores" else "auto",
            )
            kind = tensors.float16 if w.dtype == "fp16" else tensors.bfloat16
            options: dict[str, Any] = {"window_left": w.window - 1, "q_data_type": kind, "kv_data_type": kind}
            options |= {"logits_soft_cap": w.softcap or None, "sm_scale": form.scale(w)}
            lasts = tensors.tensor(last, dtype=tensors.int32)
            wrapper.plan(ends, entries, lasts, w.heads, w.kv_heads, w.head_dim, w.page, **options)
            self._plans[where] = wrapper
        return self._plans[where]
