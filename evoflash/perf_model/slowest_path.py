"""Cycles along the slowest path through a CTA's counts: of warps at barriers, and of warpgroups on wgmma.

Knows nothing of other CTAs, nor of the units that all of an SM share. Constants (`k` below), each with its
source: constants.toml.
"""

from collections.abc import Mapping
from typing import Any

from evoflash.specs import GpuSpec

Numbers = Mapping[str, float]

MMA_FLOPS = 2 * 16 * 8 * 16
SCHEDULERS = 4  # of an SM; each issues one warp instruction a cycle
_DISTANCES = range(1, 7)  # at which the emulator sees mma's that share an accumulator


def path_cycles(
    n: Numbers, alone: float, together: float, warps: int, gpu: GpuSpec, k: Mapping[str, Any]
) -> float:
    """Cycles along the slowest path of a CTA that has its SM to itself, copies in flight left out.

    `alone` are the path's warp instructions, `together` those of all warps. Barriers keep the warps in step,
    so that the path's parts add up: instructions, mma's, barriers, shuffles and rounds of loads. Where other
    warps of the CTA want the same scheduler, they all take their turns.
    """
    sharing = -(-warps // SCHEDULERS) * SCHEDULERS / warps  # of the busiest scheduler, over the mean
    cycles = max(k["lone_cpi"] * alone, sharing * together / SCHEDULERS)
    cycles += max(_products(n, gpu, k), sharing * n.get("mma", 0) * MMA_FLOPS / gpu.mma_flops_per_clk)
    cycles += k["barrier_cycles"] * n.get("critical_barrier", 0)
    cycles += k["shuffle_latency"] * n.get("critical_shfl", 0)
    cycles += k["shared_latency"] * n.get("critical_shared_rounds", 0)
    return float(cycles + load_cycles(n, k))


def _products(n: Numbers, gpu: GpuSpec, k: Mapping[str, Any]) -> float:
    """Cycles of the path's mma's: each at the tensor core's rate, or as late as its accumulator is free."""
    apart = MMA_FLOPS * SCHEDULERS / gpu.mma_flops_per_clk
    waiting = {d: n.get(f"critical_mma_after{d}", 0) for d in _DISTANCES}
    free = n.get("critical_mma", 0) - sum(waiting.values())
    return float(free * apart + sum(count * max(apart, k["mma_latency"] / d) for d, count in waiting.items()))


def load_cycles(n: Numbers, k: Mapping[str, Any]) -> float:
    """What rounds of plain loads wait: for L2 where the first-level cache misses, and for that cache else."""
    rounds = n.get("critical_load_rounds", 0)
    missing = min(1.0, n.get("critical_l1_misses", 0) / rounds) if rounds else 0.0
    return float(rounds * (missing * k["load_latency"] + (1 - missing) * k["shared_latency"]))


def exposed_copies(n: Numbers, step: float, warps: int, k: Mapping[str, Any]) -> float:
    """What a step's waits for cp.async last: the latency, less what passed since the copies were started.

    The emulator knows how long that was on a clock of its own; as a share of a step it holds on any clock.
    """
    clock = n.get("critical_clock", 0)
    exposed = 0.0
    for name in n:
        waits = n[name] if name.startswith("wait@") else 0
        if waits and clock:
            ahead = n.get(name.replace("wait", "age"), 0) / waits / clock
            exposed += waits / warps * max(0.0, k["copy_latency"] - ahead * step) / max(1.0, ahead)
    return exposed


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
    products = 2 * n.get("wgmma_macs", 0) / gpu.tensor_flops_per_clk / groups / k["tensor_share"]
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
    issued, p = k["warpgroup_cpi"] * instructions / (WARPS * groups), k["overlap_norm"]
    return float((issued**p + exponentials**p) ** (1 / p))


def exposed_boxes(n: Numbers, chain: float, lead: float, bytes_per_clk: float, k: Mapping[str, Any]) -> float:
    """What a step waits for its tiles: their latency and transfer, less the time that the ring runs ahead.

    `lead` are steps. A slot is free again in the midst of the step that reads it, so that a ring of as many
    stages is half a step less ahead. What one step waits for, all steps of the lead have waited for together.
    """
    arrival = k.get("copy_latency", k["memory_latency"]) + n.get("tma_bytes", 0) / bytes_per_clk
    return float(max(0.0, arrival - lead * chain) / max(1.0, lead))
