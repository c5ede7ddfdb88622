"""Estimates a kernel's time from emulator counters, ptxas figures and a GpuSpec. It measures nothing.

Counters of two emulated lengths give a line per KV tile; throughput terms and a latency chain give each
CTA's duration; the CTAs are then scheduled on the GPU's slots. Constants: model.toml, versioned.
"""

import heapq
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from evoflash.evaluation import Launch
from evoflash.gpu import GpuSpec
from evoflash.problem import Workload

_MMA_FLOPS = 2 * 16 * 8 * 16
_MAX_SCHEDULED = 20_000  # beyond this many CTAs the tail is a rounding error: divide instead


@cache
def constants() -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / "model.toml").read_text())


def model_version() -> str:
    return str(constants()["version"])


@dataclass(frozen=True, slots=True)
class Profile:
    """Per-CTA counts of a kernel: `fixed` once, `per_tile` for each KV tile that the CTA visits."""

    fixed: Mapping[str, float]
    per_tile: Mapping[str, float]
    block_m: int
    block_n: int
    uncounted: float  # warp instructions per KV tile that no primitive stands for


@dataclass(frozen=True, slots=True)
class Estimate:
    """A predicted time, its terms (each as if it alone bounded the kernel) and the largest term's name."""

    total_us: float
    terms: Mapping[str, float]
    bound: str


def kv_tiles(workload: Workload, block_m: int, block_n: int) -> tuple[int, ...]:
    """KV tiles that each query block of one head visits, in launch order (causal: last block first)."""
    blocks = -(-workload.seq_q // block_m)
    if not workload.causal:
        return (-(-workload.seq_kv // block_n),) * blocks
    diagonal = workload.seq_kv - workload.seq_q
    ends = (min((i + 1) * block_m, workload.seq_q) + diagonal for i in reversed(range(blocks)))
    return tuple(-(-max(0, end) // block_n) for end in ends)


def fit_profile(
    runs: tuple[tuple[Mapping[str, int], int, int], ...], *, block_m: int, block_n: int, uncounted: float
) -> Profile:
    """The line through two emulated runs, each (counters, CTAs, KV tiles visited by them together)."""
    (many, ctas_m, tiles_m), (few, ctas_f, tiles_f) = runs
    determinant = ctas_m * tiles_f - ctas_f * tiles_m
    fixed, per_tile = {}, {}
    for name in many:
        a, b = many[name], few.get(name, 0)
        fixed[name] = max(0.0, (a * tiles_f - b * tiles_m) / determinant)
        per_tile[name] = max(0.0, (ctas_m * b - ctas_f * a) / determinant)
    return Profile(fixed, per_tile, block_m, block_n, uncounted)


def occupancy(launch: Launch, registers: int, smem_static: int, gpu: GpuSpec) -> int:
    """CTAs that fit on one SM; 0 when not even one does."""
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    warp_registers = -(-max(registers, 1) * 32 // 256) * 256  # allocated in units of 256 a warp
    return min(
        gpu.blocks_per_sm,
        gpu.threads_per_sm // threads,
        gpu.regs_per_sm // (warp_registers * -(-threads // 32)),
        gpu.smem_per_sm // (launch.smem_bytes + smem_static + 1024),
    )


def estimate(
    profile: Profile, launch: Launch, workload: Workload, gpu: GpuSpec, *, registers: int, spill_bytes: int = 0
) -> Estimate:
    """The kernel's time on a workload, cold inputs, boost clock."""
    tiles = kv_tiles(workload, profile.block_m, profile.block_n)
    per_head = [_cta_cycles(profile, launch, n, gpu, spill_bytes) for n in tiles]
    heads = workload.batch * workload.heads
    resident = max(1, occupancy(launch, registers, 0, gpu))
    together = min(resident, -(-len(tiles) * heads // gpu.sm_count))
    norm = constants()["overlap_norm"]
    durations = [
        max(alone, together * sum(t**norm for t in terms.values()) ** (1 / norm)) for terms, alone in per_head
    ]
    busy_us = _makespan(durations, heads, gpu.sm_count * together) / gpu.clock_mhz
    terms = {
        name: sum(terms[name] for terms, _ in per_head) * heads / gpu.sm_count / gpu.clock_mhz
        for name in per_head[0][0]
    }
    terms["latency"] = _makespan([alone for _, alone in per_head], heads, gpu.sm_count * together) / gpu.clock_mhz
    terms["dram"] = workload.bytes_moved / (gpu.dram_gbps * 1e3)
    terms["launch"] = constants()["launch_us"]
    total = terms["launch"] + max(busy_us, terms["dram"])
    return Estimate(total, terms, max(terms, key=lambda name: terms[name]))


def _cta_cycles(
    profile: Profile, launch: Launch, tiles: int, gpu: GpuSpec, spill_bytes: int
) -> tuple[dict[str, float], float]:
    """SM cycles of one CTA by unit, and the cycles that it takes when alone on its SM."""
    k = constants()
    n = {name: profile.fixed[name] + tiles * profile.per_tile[name] for name in profile.fixed}
    warps = launch.block[0] / 32
    plain = ("mma", "ldmatrix", "lds", "sts", "ldg", "stg", "shfl", "vote", "barrier", "commit", "wait")
    math = ("ex2", "rcp", "lg2", "fmax", "fma", "pack")
    instructions = (
        sum(n.get(name, 0) for name in plain + math)
        + k["cp_async_instructions"] * n.get("cp_async", 0)
        + tiles * (profile.uncounted + warps * (k["loop_instructions"] + spill_bytes / 4))
    )
    sectors = n.get("global_read_sectors", 0) + n.get("global_write_sectors", 0)
    cycles = {
        "tensor": n.get("mma", 0) * _MMA_FLOPS / gpu.mma_flops_per_clk,
        "exp": n.get("ex2", 0) * 32 / gpu.ex2_per_clk,
        "issue": instructions / 4,
        "shared": n.get("smem_wavefronts", 0) * 128 / gpu.smem_bytes_per_clk,
        "l2": sectors * 32 * gpu.sm_count / gpu.l2_bytes_per_clk,
    }
    # Alone, a warp has one scheduler to itself at best: its own instructions and mma come one by one.
    share = max(1.0, 4 / warps)
    barriers = n.get("barrier", 0) / max(warps, 1)
    alone = (
        k["prologue_cycles"]
        + (cycles["tensor"] + cycles["issue"]) * share
        + tiles * k["chain_cycles"]
        + barriers * k["barrier_cycles"]
    )
    return cycles, alone


def _makespan(durations: list[float], heads: int, slots: int) -> float:
    """Cycles until all CTAs are done when each free slot takes the next CTA in launch order."""
    count = len(durations) * heads
    if count > _MAX_SCHEDULED:
        return sum(durations) * heads / slots + max(durations) / 2
    ends = [0.0] * min(slots, count)
    for _ in range(heads):
        for duration in durations:
            heapq.heapreplace(ends, ends[0] + duration)
    return max(ends)
