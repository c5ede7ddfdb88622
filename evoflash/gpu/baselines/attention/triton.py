"""A FlashAttention-2 style forward kernel in Triton, with the fastest of a few tiles on this workload.

Ours in Triton's place: Triton ships no attention, its tutorial's is what people adapt. The kernel is in
triton_kernel.py. It takes (B, H, S, D) by strides; grouped heads natively; its causal mask is bottom-right
aligned. Power-of-two head dimensions only: others would leave part of every tile empty.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from evoflash.extras import install
from evoflash.gpu.baselines.attention import attention_on
from evoflash.gpu.baselines.contender import (
    BaselineAbsentError,
    LibraryCall,
    fastest_call,
    import_library,
    time_settings,
    torch,
    version,
)
from evoflash.gpu.timing.benchmark import Bench
from evoflash.gpu.timing.protocols import Pace, TimingProtocol
from evoflash.operations.attention.forms import dense
from evoflash.operations.attention.workload import AttentionWorkload

_INSTALL = install("baselines")
TRYING_LIMIT_S = 60.0  # a setting costs a second or two of compilation, once: Triton keeps what it compiled
# Without idling before each sample: only their order counts.
_TRYING = TimingProtocol("cold", True, Pace.STEADY)


@dataclass(frozen=True, slots=True)
class TritonConfig:
    """A tile of queries and keys, the warps that share it, and how many tiles of keys are in flight."""

    block_m: int
    block_n: int
    warps: int
    stages: int

    def __str__(self) -> str:
        return f"{self.block_m}x{self.block_n}, {self.warps} warps, {self.stages} stages"


SETTINGS = (
    TritonConfig(128, 128, 8, 2),
    TritonConfig(128, 128, 8, 3),
    TritonConfig(128, 64, 8, 3),
    TritonConfig(128, 64, 4, 3),
    TritonConfig(64, 64, 4, 3),
    TritonConfig(64, 128, 4, 2),
    TritonConfig(64, 32, 4, 4),
    TritonConfig(128, 32, 4, 4),
)


def calls(name: str, bench: Bench) -> Iterator[LibraryCall]:
    """The setting of the lowest short time; one that Triton refuses does not count. Finals time it again."""
    head_dim = attention_on(bench).head_dim
    import_library("triton", _INSTALL)
    if head_dim & (head_dim - 1):
        raise BaselineAbsentError(f"head dimension {head_dim} is no power of two")
    call_of = partial(library_call, attention_on(bench))
    times_us, reasons = time_settings(
        name, bench, SETTINGS, call_of, protocol=_TRYING, limit_s=TRYING_LIMIT_S
    )
    if not times_us:
        raise BaselineAbsentError(f"none of its settings ran: {reasons[0]}")
    yield fastest_call(times_us, call_of)


def library_call(workload: AttentionWorkload, setting: TritonConfig) -> LibraryCall:
    kernel = import_library("evoflash.gpu.baselines.attention.triton_kernel", _INSTALL).forward
    w, tensors = workload, torch()
    grid = (-(-w.seq_q // setting.block_m), w.batch * w.heads)
    scale = dense.scale(w) * math.log2(math.e)

    def attend(q: Any, k: Any, v: Any) -> Any:
        out = tensors.empty_like(q)
        strides = [stride for each in (q, k, v, out) for stride in each.stride()[:3]]
        sizes = (w.seq_q, w.seq_kv, w.heads, w.gqa_ratio, scale)
        kernel[grid](
            *(q, k, v, out, *strides, *sizes),
            head_dim=w.head_dim,
            block_m=setting.block_m,
            block_n=setting.block_n,
            causal=w.causal,
            num_warps=setting.warps,
            num_stages=setting.stages,
        )
        return out

    return LibraryCall(attend, {"triton": version("triton") or "unknown"})
