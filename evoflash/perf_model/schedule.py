"""How long a step of a kernel's warps takes in cycles, and a launch's CTAs on a GPU's slots.

Warps load, multiply and meet at barriers: the slowest path through a step counts. On Hopper it is the chain
of one warpgroup, which knows nothing of other warpgroups: the performance model sets the chain against the
units that all of an SM share. So two of them overlap products and exponentials, and one alone adds them up
unless its kernel keeps a product in flight. Counts are the emulator's; `k` holds the constants of
constants.toml. Measures nothing.
"""

import heapq
import math
from collections.abc import Mapping
from typing import Any

from evoflash.launch import LaunchConfig
from evoflash.specs import GpuSpec

_MAX_SCHEDULED = 20_000  # beyond this many CTAs the tail is a rounding error: divide instead


def makespan(durations: list[float], copies: int, slots: int) -> float:
    """Cycles until all is done when each free slot takes the next CTA in launch order (or, where the CTAs
    are persistent, the next of the pieces that they share). `durations`: of the CTAs of one of `copies`
    equal groups, in that order.

    Pieces that are handed out on demand go that way; those taken in turns are estimated as if they did.
    """
    count = len(durations) * copies
    if min(durations) == max(durations):
        return durations[0] * -(-count // slots)
    if count > _MAX_SCHEDULED:
        return sum(durations) * copies / slots + max(durations) / 2
    ends = [0.0] * min(slots, count)
    for _ in range(copies):
        for duration in durations:
            heapq.heapreplace(ends, ends[0] + duration)
    return max(ends)


def at_work(launch: LaunchConfig, pieces: int, batch: int, sm_count: int) -> int:
    """CTAs of a launch that find work, of `pieces` in all.

    A persistent grid is filled up to a multiple of the batch, and what goes beyond the GPU's slots, which are
    a multiple of its SMs, returns at once. With a batch of more than half the SMs the slots cannot be told
    from the grid: all of it counts.
    """
    count = math.prod(launch.grid)
    over = count % sm_count
    is_filled_up = count < pieces and count > sm_count and over < batch <= sm_count / 2
    return count - over if is_filled_up else count


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
    return float(cycles + _load_cycles(n, k))


def _products(n: Numbers, gpu: GpuSpec, k: Mapping[str, Any]) -> float:
    """Cycles of the path's mma's: each at the tensor core's rate, or as late as its accumulator is free."""
    apart = MMA_FLOPS * SCHEDULERS / gpu.mma_flops_per_clk
    waiting = {d: n.get(f"critical_mma_after{d}", 0) for d in _DISTANCES}
    free = n.get("critical_mma", 0) - sum(waiting.values())
    return float(free * apart + sum(count * max(apart, k["mma_latency"] / d) for d, count in waiting.items()))


def _load_cycles(n: Numbers, k: Mapping[str, Any]) -> float:
    """What rounds of plain loads wait: for L2 where the first-level cache misses, and for that cache else."""
    rounds = n.get("critical_load_rounds", 0)
    missing = min(1.0, n.get("critical_l1_misses", 0) / rounds) if rounds else 0.0
    return float(rounds * (missing * k["memory_latency"] + (1 - missing) * k["shared_latency"]))


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
            exposed += waits / warps * max(0.0, k["memory_latency"] - ahead * step)
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
