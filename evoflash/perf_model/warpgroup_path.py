"""What one warpgroup of a Hopper kernel does in a step, as a chain of cycles.

It knows nothing of other warpgroups: the performance model sets the chain against the units that all of an SM
share. So two of them overlap products and exponentials, and one alone adds them up unless its kernel keeps a
product in flight. Counts are the emulator's; `k` holds the constants of constants.toml.
"""

from collections.abc import Mapping
from typing import Any

from evoflash.gpu import GpuSpec

Numbers = Mapping[str, float]

WARPS = 4  # of a warpgroup, one on each scheduler of its SM


def chain_cycles(
    n: Numbers,
    instructions: float,
    groups: int,
    gpu: GpuSpec,
    k: Mapping[str, Any],
    *,
    overlaps: bool = False,
) -> float:
    """Cycles that one of `groups` equal warpgroups takes for its part of a CTA's counts, the SM to itself.

    `instructions` are the CTA's warp instructions. `overlaps`: the next step's scores are under way before
    this step's exponentials are taken, so that a product runs beside them.
    """
    products = 2 * n.get("wgmma_macs", 0) / gpu.tensor_flops_per_clk / groups
    softmax = _softmax_cycles(n, instructions, groups, gpu, k)
    both = products / 2 + max(products / 2, softmax) if overlaps else products + softmax
    waits = k["mbarrier_cycles"] * n.get("mbarrier", 0) + k["barrier_cycles"] * n.get("barrier", 0)
    waits += k["shuffle_latency"] * n.get("shfl", 0)
    return float(both + waits / (WARPS * groups))


def _softmax_cycles(
    n: Numbers, instructions: float, groups: int, gpu: GpuSpec, k: Mapping[str, Any]
) -> float:
    """A warp's instructions and its exponentials, which overlap in part."""
    exponentials = (n.get("ex2", 0) + n.get("rcp", 0) + n.get("lg2", 0)) * 32 / gpu.ex2_per_clk / groups
    issued, p = k["lone_cpi"] * instructions / (WARPS * groups), k["overlap_norm"]
    return float((issued**p + exponentials**p) ** (1 / p))


def exposed_boxes(n: Numbers, chain: float, stages: int, bytes_per_clk: float, k: Mapping[str, Any]) -> float:
    """What a step waits for its tiles: their latency and transfer, less the time that the ring runs ahead.

    A slot is free again in the midst of the step that reads it, so the ring is stages - 1/2 steps ahead.
    """
    arrival = k["memory_latency"] + n.get("tma_bytes", 0) / bytes_per_clk
    return float(max(0.0, arrival - (stages - 0.5) * chain))
