"""Estimates a candidate's time from emulator counters, ptxas figures and a GpuSpec. Measures nothing.

Counters of two emulated lengths give a line per step of the main loop. A step takes a CTA as long as its
slowest path needs alone (schedule.py; on wgmma the chain of one warpgroup), or as long as the SM's units need
for all CTAs that share it; the CTAs are then scheduled on the GPU's slots, launch after launch.

Constants: constants.toml, versioned. How well it ranks: scripts/model/records/model-h200.json; of wgmma
kernels scripts/hopper_kernel/records/model-hopper.json.xz.
"""

import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from evoflash.launch import LaunchConfig
from evoflash.operation import Loop, Work, Workload, operation_of
from evoflash.perf_model.schedule import (
    MMA_FLOPS,
    SCHEDULERS,
    WARPS,
    Numbers,
    at_work,
    chain_cycles,
    exposed_boxes,
    exposed_copies,
    makespan,
    path_cycles,
)
from evoflash.specs import GpuSpec

_MACS_PER_B_BYTE = 32  # wgmma: 64 rows for each 16-bit element of operand B that it reads in shared memory
_PER_SCHEDULER = ("tensor", "exp", "issue")
_ONE_SLOT = ("mma", "ldmatrix", "stmatrix", "lds", "sts", "ldg", "stg", "shfl", "vote")
_SYNCHRONISING = ("barrier", "commit", "wait", "mbarrier", "tma")
_MATH = ("ex2", "rcp", "lg2", "fmax", "fma", "pack")
_L1_SECTORS = 4  # that the first-level cache delivers in a cycle: 128 bytes, as shared memory does
_L2_PORT = 64  # bytes in a cycle between L2 and one SM


@cache
def constants() -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / "constants.toml").read_text())


def model_version() -> str:
    return str(constants()["version"])


@dataclass(frozen=True, slots=True)
class Counts:
    """What a CTA of one launch counts: `fixed` once, `per_step` in each step of its main loop."""

    fixed: Numbers
    per_step: Numbers


@dataclass(frozen=True, slots=True)
class Profile:
    """A candidate's counts, launch after launch, and the shape of its first launch's main loop.

    Launches after the first have no such loop: all that they do is `fixed`.
    """

    launches: tuple[Counts, ...]
    rows: int  # of the output, that a CTA owns
    keys: int  # items of a step: the keys of attention
    stages: int  # depth of the ring of tiles; 1 is none
    splits: int  # CTAs that share the items of a block of rows
    uncounted: float  # warp instructions of a CTA in a step that no primitive stands for
    pack: int = 1  # groups whose rows share a CTA: the query heads of attention
    cluster: int = 1  # CTAs that walk the same tiles together: those of the one that sees most
    overlaps: bool = False  # on wgmma: a warpgroup's second product runs beside its exponentials
    row_tiles: int = 1  # on wgmma: of 64 rows, that a warpgroup computes
    operand_bytes: float = 0.0  # of operand A, that wgmma reads in shared memory in a step of a CTA

    @property
    def loop(self) -> Loop:
        """The shape alone."""
        return Loop(
            rows=self.rows,
            keys=self.keys,
            stages=self.stages,
            splits=self.splits,
            pack=self.pack,
            cluster=self.cluster,
            overlaps=int(self.overlaps),
            row_tiles=self.row_tiles,
            operand_bytes=int(self.operand_bytes),
        )


@dataclass(frozen=True, slots=True)
class Estimate:
    """A predicted time, its terms (each as if it alone bounded the kernel) and the largest term's name."""

    total_us: float
    terms: Numbers
    bound: str


def fit_counts(runs: tuple[tuple[Mapping[str, int], int, int], ...]) -> Counts:
    """The line through two emulated runs of a launch, each (counters, CTAs, steps taken by them together)."""
    (many, ctas_m, steps_m), (few, ctas_f, steps_f) = runs
    determinant = ctas_m * steps_f - ctas_f * steps_m
    fixed, per_step = {}, {}
    for name in many:
        a, b = many[name], few.get(name, 0)
        fixed[name] = max(0.0, (a * steps_f - b * steps_m) / determinant)
        per_step[name] = max(0.0, (ctas_m * b - ctas_f * a) / determinant)
    return Counts(fixed, per_step)


def mean_counts(counters: Mapping[str, int]) -> Counts:
    """The counts of a launch without a loop, from one emulated run."""
    return Counts({name: value / counters["ctas"] for name, value in counters.items()}, {})


def occupancy(launch: LaunchConfig, registers: int, smem_static: int, gpu: GpuSpec) -> int:
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
    launches: tuple[LaunchConfig, ...],
    workload: Workload,
    gpu: GpuSpec,
    *,
    registers: int,
    spill_bytes: int = 0,
    smem_static_bytes: int = 0,
) -> Estimate:
    """The candidate's time on a workload at boost clock, its inputs not in the L2.

    `launches` are those that the profile was made of, with their grids on this workload.
    """
    operation, loop = operation_of(workload), profile.loop
    work = operation.work(workload, loop)
    groups = operation.consumers(profile.launches[0].per_step, workload, loop)
    first = at_work(launches[0], len(work.steps) * work.copies, work.batch, gpu.sm_count)
    ctas = [_Ctas(launches[0], first, gpu, registers, smem_static_bytes, groups=groups)]
    for launch in launches[1:]:
        ctas.append(_Ctas(launch, math.prod(launch.grid), gpu, registers, smem_static_bytes, groups=0))
    main = _main(profile, ctas[0], work, gpu, spill_bytes=spill_bytes)
    rest = [_loopless(counts, each, gpu) for counts, each in zip(profile.launches[1:], ctas[1:], strict=True)]
    terms = {name: sum(part[name] for part in (main, *rest)) / gpu.clock_mhz for name in main}
    busy_us = terms.pop("makespan")
    terms["dram"] = workload.bytes_moved / (gpu.dram_gbps * 1e3)
    terms["launch"] = constants()["launch_us"] * len(launches)
    total = terms["launch"] + max(busy_us, terms["dram"])
    return Estimate(total, terms, max(terms, key=lambda name: terms[name]))


class _Ctas:
    """How many CTAs of a launch work, and how they share the SMs."""

    def __init__(
        self,
        launch: LaunchConfig,
        count: int,
        gpu: GpuSpec,
        registers: int,
        smem_static_bytes: int,
        *,
        groups: int,
    ) -> None:
        self.count = count
        self.groups = groups  # that compute on wgmma; 0: the kernel has none
        # Without a producer's: they ask for copies and sleep.
        self.warps = WARPS * groups or -(-math.prod(launch.block) // 32)
        resident = max(1, occupancy(launch, registers, smem_static_bytes, gpu))
        self.together = min(resident, -(-self.count // gpu.sm_count))  # on the busiest SM
        self.slots = min(self.count, gpu.sm_count * self.together)
        self.busy_sms = min(self.count, gpu.sm_count)
        self.l2_bytes_per_clk = min(_L2_PORT, gpu.l2_bytes_per_clk / self.busy_sms)  # of one SM


def _main(profile: Profile, ctas: _Ctas, work: Work, gpu: GpuSpec, *, spill_bytes: int) -> dict[str, float]:
    """Cycles of the launch that has the loop: its makespan, and each unit's as if it alone counted."""
    counts, steps = profile.launches[0], work.steps
    extra = profile.uncounted + ctas.warps * (constants()["loop_instructions"] + spill_bytes / 4)
    per_step = {**counts.per_step, "operand_bytes": profile.operand_bytes}
    once, each = _units(counts.fixed, 0.0, ctas, gpu), _units(per_step, extra, ctas, gpu)
    start = _start_cycles(ctas) + _norm(
        (_path_cycles(counts.fixed, 0.0, ctas, gpu), *_unit_cycles(once, ctas))
    )
    alone = _step_cycles(profile, extra, ctas, gpu)
    step = _norm((alone, *_unit_cycles(each, ctas)))

    def end_cycles(cycles: float) -> float:
        return makespan([start + n * cycles for n in steps], work.copies, ctas.slots)

    busy = {unit: work.copies * (len(steps) * once[unit] + sum(steps) * each[unit]) for unit in each}
    terms = {unit: cycles / ctas.busy_sms for unit, cycles in busy.items()}
    return terms | {"latency": end_cycles(alone), "makespan": end_cycles(step)}


def _start_cycles(ctas: _Ctas) -> float:
    """What a CTA waits before its first step and after its last; on wgmma its SM's other CTAs hide a part."""
    k = constants()
    return float(k["warpgroup_start"] / ctas.together if ctas.groups else k["memory_latency"])


def _step_cycles(profile: Profile, extra: float, ctas: _Ctas, gpu: GpuSpec) -> float:
    """A step of a CTA that has its SM to itself, and what it waits in it for keys and values."""
    n, k = profile.launches[0].per_step, constants()
    if not ctas.groups:
        path = _path_cycles(n, extra, ctas, gpu)
        return path + exposed_copies(n, path, ctas.warps, k)
    chain = chain_cycles(n, _instructions(n) + extra, ctas.groups, gpu, k, overlaps=profile.overlaps)
    chain += k["cluster_cycles"] if profile.cluster > 1 else 0
    return chain + exposed_boxes(n, chain, profile.stages, ctas.l2_bytes_per_clk, k)


def _loopless(counts: Counts, ctas: _Ctas, gpu: GpuSpec) -> dict[str, float]:
    """Cycles of a launch whose CTAs all do the same once."""
    units = _units(counts.fixed, 0.0, ctas, gpu)
    alone = constants()["memory_latency"] + _path_cycles(counts.fixed, 0.0, ctas, gpu)
    waves = ctas.count / ctas.slots
    terms = {unit: cycles * ctas.count / ctas.busy_sms for unit, cycles in units.items()}
    return terms | {"latency": waves * alone, "makespan": waves * _norm((alone, *_unit_cycles(units, ctas)))}


def _instructions(n: Numbers, prefix: str = "") -> float:
    """Warp instructions that primitives stand for: of a CTA, or (prefix `critical_`) of its slowest path."""
    copies = constants()["cp_async_instructions"] * n.get(f"{prefix}cp_async", 0)
    products = WARPS * n.get(f"{prefix}wgmma", 0)  # each warp of the warpgroup issues it
    single = sum(n.get(prefix + name, 0) for name in _ONE_SLOT + _SYNCHRONISING + _MATH)
    return float(single + copies + products)


def _units(n: Numbers, extra: float, ctas: _Ctas, gpu: GpuSpec) -> dict[str, float]:
    """Cycles that each unit of an SM works for the counts of one CTA; `extra`: instructions besides them."""
    loads = n.get("load_sectors", 0)
    copied = max(
        0.0, n.get("global_read_sectors", 0) - loads
    )  # cp.async and TMA pass the first-level cache by
    far = copied + n.get("l1_misses", 0) + n.get("global_write_sectors", 0)
    near = (n.get("smem_wavefronts", 0) + n.get("shfl", 0)) * 128 / gpu.smem_bytes_per_clk
    operands = n.get("wgmma_macs", 0) / _MACS_PER_B_BYTE + n.get("operand_bytes", 0)
    near += (n.get("tma_bytes", 0) + operands) / gpu.smem_bytes_per_clk
    products = n.get("mma", 0) * MMA_FLOPS / gpu.mma_flops_per_clk
    products += 2 * n.get("wgmma_macs", 0) / gpu.tensor_flops_per_clk
    return {
        "tensor": products,
        "exp": (n.get("ex2", 0) + n.get("rcp", 0) + n.get("lg2", 0)) * 32 / gpu.ex2_per_clk,
        "issue": (_instructions(n) + extra) / SCHEDULERS,
        "shared": near + max(n.get("ldg", 0), loads / _L1_SECTORS),
        "l2": far * 32 / ctas.l2_bytes_per_clk,
    }


def _path_cycles(n: Numbers, extra: float, ctas: _Ctas, gpu: GpuSpec) -> float:
    """Cycles along the slowest path of a CTA that has its SM to itself, copies in flight left out."""
    together, k = _instructions(n) + extra, constants()
    if ctas.groups:
        return chain_cycles(n, together, ctas.groups, gpu, k)
    return path_cycles(n, _instructions(n, "critical_") + extra / ctas.warps, together, ctas.warps, gpu, k)


def _unit_cycles(units: Numbers, ctas: _Ctas) -> tuple[float, ...]:
    """Cycles of each unit for all CTAs on the SM; the busiest scheduler counts, not the mean."""
    mean = ctas.warps * ctas.together / SCHEDULERS
    uneven = math.ceil(mean) / mean
    return tuple(ctas.together * n * (uneven if u in _PER_SCHEDULER else 1) for u, n in units.items())


def _norm(cycles: Iterable[float]) -> float:
    p = constants()["overlap_norm"]
    return float(sum(c**p for c in cycles) ** (1 / p))
