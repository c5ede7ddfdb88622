"""Estimates a kernel's time from emulator counters, ptxas figures and a GpuSpec. It measures nothing.

Counters of two emulated lengths give a line per KV tile. A tile takes a CTA as long as its slowest warp needs
alone, or as long as the SM's units need for all CTAs that share it; the CTAs are then scheduled on the GPU's
slots. Constants: model.toml, versioned; how well it ranks: docs/measurements/model-*.json.
"""

import heapq
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from evoflash.evaluation import Launch
from evoflash.gpu import GpuSpec
from evoflash.problem import Workload

_MMA_FLOPS = 2 * 16 * 8 * 16
_MMA_DEPTH = 16  # of the sum over k: mma's along it depend on one another
_SCHEDULERS = 4  # of an SM; each issues one warp instruction a cycle
_PER_SCHEDULER = ("tensor", "exp", "issue")
_ONE_SLOT = ("mma", "ldmatrix", "lds", "sts", "ldg", "stg", "shfl", "vote", "barrier", "commit", "wait")
_MATH = ("ex2", "rcp", "lg2", "fmax", "fma", "pack")
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
    profile: Profile,
    launch: Launch,
    workload: Workload,
    gpu: GpuSpec,
    *,
    registers: int,
    spill_bytes: int = 0,
    hot: bool = False,
) -> Estimate:
    """The kernel's time on a workload at boost clock; `hot`: the inputs are in L2, DRAM does not count."""
    tiles = kv_tiles(workload, profile.block_m, profile.block_n)
    heads = workload.batch * workload.heads
    ctas = len(tiles) * heads
    together = min(max(1, occupancy(launch, registers, 0, gpu)), -(-ctas // gpu.sm_count))
    once, tile = _units(profile, launch, gpu, spill_bytes=spill_bytes)
    start, alone = _start_cycles(once, launch), _alone_cycles(profile, tile, launch, workload)
    step = _norm((alone, *_crowded(tile, _warps(launch), together)))

    def makespan_us(cycles: float) -> float:
        durations = [start + n * cycles for n in tiles]
        return _makespan(durations, heads, gpu.sm_count * together) / gpu.clock_mhz

    work = {unit: len(tiles) * once[unit] + sum(tiles) * tile[unit] for unit in tile}
    terms = {unit: cycles * heads / gpu.sm_count / gpu.clock_mhz for unit, cycles in work.items()}
    terms["latency"] = makespan_us(alone)
    terms["dram"] = 0.0 if hot else workload.bytes_moved / (gpu.dram_gbps * 1e3)
    terms["launch"] = constants()["launch_us"]
    total = terms["launch"] + max(makespan_us(step), terms["dram"])
    return Estimate(total, terms, max(terms, key=lambda name: terms[name]))


def _warps(launch: Launch) -> int:
    return -(-launch.block[0] * launch.block[1] * launch.block[2] // 32)


def _units(
    profile: Profile, launch: Launch, gpu: GpuSpec, *, spill_bytes: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Cycles that each unit of an SM works for one CTA: once, and for each KV tile."""
    loop = constants()["loop_instructions"] + spill_bytes / 4
    overhead = profile.uncounted + _warps(launch) * loop
    return _unit_cycles(profile.fixed, 0.0, gpu), _unit_cycles(profile.per_tile, overhead, gpu)


def _unit_cycles(n: Mapping[str, float], overhead: float, gpu: GpuSpec) -> dict[str, float]:
    copies = constants()["cp_async_instructions"] * n.get("cp_async", 0)
    instructions = sum(n.get(name, 0) for name in _ONE_SLOT + _MATH) + copies + overhead
    sectors = n.get("global_read_sectors", 0) + n.get("global_write_sectors", 0)
    return {
        "tensor": n.get("mma", 0) * _MMA_FLOPS / gpu.mma_flops_per_clk,
        "exp": n.get("ex2", 0) * 32 / gpu.ex2_per_clk,
        "issue": instructions / _SCHEDULERS,
        "shared": n.get("smem_wavefronts", 0) * 128 / gpu.smem_bytes_per_clk,
        "l2": sectors * 32 * gpu.sm_count / gpu.l2_bytes_per_clk,
    }


def _start_cycles(once: Mapping[str, float], launch: Launch) -> float:
    """What a CTA takes besides its tiles: the first copy's latency, and a warp's instructions in a row."""
    k = constants()
    return float(k["memory_latency"] + k["lone_cpi"] * once["issue"] * _SCHEDULERS / _warps(launch))


def _alone_cycles(profile: Profile, tile: Mapping[str, float], launch: Launch, workload: Workload) -> float:
    """A tile's cycles in a CTA that has its SM to itself.

    Barriers keep its warps in step, so that a tile's phases add up: instructions, mma's (never shorter than
    the chain of those that depend on one another), barriers, and what nothing hides of the copies' latency.
    """
    k = constants()
    warps = _warps(launch)
    sharing = -(-warps // _SCHEDULERS)  # warps on the busiest scheduler
    warp = {unit: cycles * _SCHEDULERS / warps for unit, cycles in tile.items()}
    chain = (workload.head_dim + profile.block_n) / _MMA_DEPTH * k["mma_latency"] if warp["tensor"] else 0.0
    cycles = warp["issue"] * max(k["lone_cpi"], sharing) + max(warp["tensor"] * sharing, chain)
    cycles += profile.per_tile.get("barrier", 0) / warps * k["barrier_cycles"]
    exposed = (max(0.0, k["memory_latency"] - ahead * cycles) for ahead in _ahead(profile, launch, workload))
    return float(cycles + sum(exposed))


def _ahead(profile: Profile, launch: Launch, workload: Workload) -> tuple[float, ...]:
    """For each wait of a tile: the tiles of time between the start of the copies it waits for and itself.

    Read off the counters: commit groups in flight say how deep K's ring is, the shared memory besides Q's
    tile how deep both are together. With two waits a tile, a refill starts half a tile after its slot's wait.
    """
    n = profile.per_tile
    if not n.get("cp_async", 0) or not n.get("commit", 0):
        return ()
    row_bytes = 2 * workload.head_dim  # padded rows pass for a deeper ring, by 1/8 at a head_dim of 64
    slots = (launch.smem_bytes / row_bytes - profile.block_m) / profile.block_n
    if n.get("wait", 0) < 1.5 * _warps(launch):
        return (max(0.0, slots / 2 - 1),)
    k_slots = profile.fixed.get("commit", 0) / n["commit"]
    return max(0.0, k_slots - 0.5), max(0.0, slots - k_slots - 0.5)


def _crowded(tile: Mapping[str, float], warps: int, together: int) -> tuple[float, ...]:
    """Cycles of each unit for a tile of every CTA on the SM; the busiest scheduler counts, not the mean."""
    mean = warps * together / _SCHEDULERS
    uneven = math.ceil(mean) / mean
    return tuple(together * cycles * (uneven if u in _PER_SCHEDULER else 1) for u, cycles in tile.items())


def _norm(cycles: Iterable[float]) -> float:
    p = constants()["overlap_norm"]
    return float(sum(c**p for c in cycles) ** (1 / p))


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
