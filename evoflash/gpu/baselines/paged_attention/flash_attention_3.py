"""FlashAttention-3 on pages: the library that vLLM's wheels bring, with the fastest number of splits.

It is loaded without vLLM, which would import all that it has. Where the keys are shared out among blocks, a
kernel before the main one chooses by the lengths how; its answer is made beforehand, untimed, as vLLM does
once a step for all layers. Each workload has the fastest of several numbers of splits, and of packing query
heads or leaving that to the library.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from evoflash.gpu.baselines.attention.flash_attention_3 import VLLM_INSTALL, operators_in_vllm
from evoflash.gpu.baselines.contender import (
    BaselineAbsentError,
    LibraryCall,
    LibraryContender,
    fastest_call,
    time_settings,
    torch,
    version,
)
from evoflash.gpu.baselines.paged_attention import cache_of, paged_on
from evoflash.gpu.timing.benchmark import Bench
from evoflash.operations.paged import form
from evoflash.operations.paged.workload import PagedWorkload

_TRYING_LIMIT_S = 20.0
_SPLITS = (0, 1, 2, 4, 8, 16, 32, 64, 128)  # 0: the library's own choice
_LEAST_KEYS = 64  # of a split
_BF16_SINKS = 1e-2  # what an output may be off where sinks are rounded to BF16


@dataclass(frozen=True, slots=True)
class _Setting:
    """What the library is told."""

    splits: int
    packs: bool | None  # query heads of a group into one tile; None: as it likes

    def __str__(self) -> str:
        return f"splits {self.splits or 'auto'}{', packed' if self.packs else ''}"


def calls(name: str, bench: Bench) -> Iterator[LibraryCall]:
    """The fastest setting on the workload."""
    workload, operators = paged_on(bench), _operators()
    most = max(1, workload.seq_kv // _LEAST_KEYS)
    settings = [_Setting(splits, packs) for packs in (None, True) for splits in _SPLITS if splits <= most]
    call_of = partial(_call, operators, workload)
    LibraryContender(name, bench, call_of(settings[0])).try_out(bench)  # why not, where it refuses
    times_us, reasons = time_settings(
        name, bench, settings, call_of, protocol=bench.protocols[0], limit_s=_TRYING_LIMIT_S
    )
    if not times_us:
        raise BaselineAbsentError(reasons[0])
    yield fastest_call(times_us, call_of)


def _operators() -> Any:
    """Its operators. BaselineAbsentError where no vLLM is installed, or its library cannot be loaded."""
    if operators := operators_in_vllm():
        return operators
    raise BaselineAbsentError(f"vllm is not installed: {VLLM_INSTALL}, which brings it")


def _call(operators: Any, workload: PagedWorkload, setting: _Setting) -> LibraryCall:
    w, library = workload, torch()
    kind = library.float16 if w.dtype == "fp16" else library.bfloat16
    left, right = (w.window - 1, 0) if w.window else (-1, -1)

    def together(*tensors: Any) -> tuple[Any, ...]:
        cache = cache_of(w, tensors)
        rows = cache.rows
        if rows is None:
            rows = library.arange(0, w.total_q + 1, w.seq_q, dtype=library.int32, device=cache.q.device)
        sizes = (w.batch, w.seq_q, w.seq_kv, w.heads, w.kv_heads, w.head_dim, w.head_dim, kind)
        plan = library.empty(0, dtype=library.int32, device=cache.q.device)
        if setting.splits != 1:
            none = (None, None, None, None)
            plan = operators.get_scheduler_metadata(
                *sizes, cache.lengths, rows, *none, w.page, 0, True, left, right, w.softcap > 0,
                setting.splits, setting.packs, 0,
            )  # fmt: skip
        sinks = (cache.sinks.bfloat16(),) if w.sink else ()
        return cache.q, cache.k, cache.v, cache.table, cache.lengths, rows, plan, *sinks

    def attend(*given: Any) -> Any:
        q, k, v, table, lengths, rows, plan, *sinks = given
        return operators.fwd(
            q, k, v, None, None, None, library.empty_like(q),  # no new keys; the output
            rows, None, None, None, lengths, w.seq_q, w.seq_kv,
            table, None, None, None, None, None, None, None, None,  # no padding, positions or 8-bit scales
            form.scale(w), True, left, right, w.softcap, True,
            plan if len(plan) else None, setting.splits, setting.packs, 0, *(sinks or (None,)), 1, 0, None,
        )[0]  # fmt: skip

    known = version("vllm") or "of an unknown version"
    return LibraryCall(
        attend,
        {"flash-attn-3": f"in vLLM {known}"},
        together=together,
        rel_l2=_BF16_SINKS if w.sink == "fp32" else 0.0,
    )
