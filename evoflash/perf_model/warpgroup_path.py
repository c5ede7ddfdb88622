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
_ROWS, _DEPTH = 64, 16  # of a product


def consumers(n: Numbers, head_dim: int, row_tiles: int = 1) -> int:
    """Warpgroups of a CTA that compute, from its counts in a step; 0 where nothing is computed on wgmma.

    Each multiplies 64 rows, or `row_tiles` times 64, by b keys, and P by b values: for each 64 head_dim / 16
    products of b columns, and b / 16 of head_dim columns. All products and their multiplications, counted,
    give b and the number of warpgroups.
    """
    products, macs = n.get("wgmma", 0), n.get("wgmma_macs", 0)
    if not products:
        return 0
    tiles = (_DEPTH * products - macs / (2 * _ROWS * head_dim)) / head_dim
    return max(1, round(tiles / row_tiles))


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
    this step's exponentials are taken, so that P V runs beside them.
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
