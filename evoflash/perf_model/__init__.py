"""The performance model, which estimates a kernel's time from counters and a data sheet. Measures nothing.

Counters of two emulated lengths give a line per step of the main loop. A step takes a CTA as long as its
slowest path needs alone, or as long as the SM's units need for all CTAs that share it; the CTAs are then
scheduled on the GPU's slots, launch after launch. Warps load, multiply and meet at barriers: the slowest path
through a step counts. On Hopper it is the chain of one warpgroup, which knows nothing of other warpgroups,
and is set against the units that all of an SM share. So two of them overlap products and exponentials, and
one alone adds them up unless its kernel keeps a product in flight. DRAM is one more unit, of the whole GPU,
but rests while the first CTAs start and the last ones end; CTAs that shared a row's work then meet in memory.
CTAs of a launch that begins early find SMs that the launch before it still holds, and lie unevenly.

Before anything is compiled, proportions tell how a genome's launches fill a GPU.

Constants (`k` below), each with its source: constants.toml, versioned. How well it ranks:
evoflash/estimate_error.toml.

    slowest_path  Cycles along the slowest path through a CTA's counts
"""

import heapq
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evoflash.launch import LaunchConfig, occupancy
from evoflash.operation import Loop, Work, operation_of
from evoflash.perf_model.slowest_path import (
    MMA_FLOPS,
    SCHEDULERS,
    WARPS,
    Numbers,
    chain_cycles,
    exposed_boxes,
    exposed_copies,
    load_cycles,
    path_cycles,
)
from evoflash.problem import Problem
from evoflash.space import Genome, Proportions
from evoflash.specs import GpuSpec
from evoflash.workload import Workload

if TYPE_CHECKING:
    from evoflash.kernels.family import Family

_MACS_PER_B_BYTE = 32  # wgmma: 64 rows for each 16-bit element of operand B that it reads in shared memory
_PER_SCHEDULER = ("tensor", "exp", "issue")
_ONE_SLOT = ("mma", "ldmatrix", "stmatrix", "lds", "sts", "ldg", "stg", "shfl", "vote")
_SYNCHRONISING = ("barrier", "commit", "wait", "mbarrier", "tma")
_MATH = ("ex2", "rcp", "lg2", "fmax", "fma", "pack")
_L1_SECTORS = 4  # that the first-level cache delivers in a cycle: 128 bytes, as shared memory does
_L1_BYTES = 28 << 10  # of the first-level cache, beyond what shared memory may take of it
_CTA_BYTES = 1 << 10  # of shared memory, that the driver keeps for each CTA
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
class Profile(Loop):
    """A candidate's counts by launch, that of the main loop first, and that loop's shape.

    The others have no such loop: all that they do is `fixed`.
    """

    launches: tuple[Counts, ...] = ()
    uncounted: float = 0.0  # warp instructions of a CTA in a step that no primitive stands for


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
    operation = operation_of(workload)
    work, launches = operation.work(workload, profile), profile.first_of(launches)
    k = _constants_of(profile, work, workload)
    first = at_work(launches[0], len(work.steps) * work.copies, work.batch, gpu.sm_count)
    ctas = [_Ctas(launches[0], first, gpu, registers, smem_static_bytes, loop=profile, k=k)]
    for launch in launches[1:]:
        count = math.prod(launch.grid)
        ctas.append(_Ctas(launch, count, gpu, registers, smem_static_bytes, loop=None, k=constants()))
    main = _main(profile, ctas[0], work, gpu, spill_bytes=spill_bytes)
    rest = [_loopless(counts, each, gpu) for counts, each in zip(profile.launches[1:], ctas[1:], strict=True)]
    terms = {name: sum(part[name] for part in (main, *rest)) / gpu.clock_mhz for name in main}
    del terms["makespan"], terms["start"]
    terms["dram"] = workload.bytes_moved / (k["dram_share"] * gpu.dram_gbps * 1e3)
    terms["launch"] = sum(k["dependent_us" if each.dependent else "launch_us"] for each in launches)
    terms["launch"] += k["before_us"] * profile.before
    loop_us, *rest_us = (part["makespan"] / gpu.clock_mhz for part in (main, *rest))
    total = terms["launch"] + main["start"] / gpu.clock_mhz + sum(rest_us)
    total += _norm((loop_us, terms["dram"]), k["warpgroup_norm" if ctas[0].is_streamed else "dram_norm"])
    return Estimate(total, terms, max(terms, key=lambda name: terms[name]))


def _constants_of(profile: Profile, work: Work, workload: Workload) -> dict[str, Any]:
    """Those of the model, with the latency of memory as the main loop meets it: of the bytes that its CTAs
    ask for, as many come from DRAM as the workload has, and the others, asked for again, from L2.
    """
    k, counts, steps = constants(), profile.launches[0], sum(work.steps)
    near = k["memory_latency"] + profile.queue_cycles

    def asked_bytes(sectors: Callable[[Numbers], float]) -> float:
        once, each = sectors(counts.fixed), sectors(counts.per_step)
        return 32 * work.copies * (len(work.steps) * once + steps * each)

    def latency(bytes_from_dram: float, asked: float) -> float:
        share = min(1.0, bytes_from_dram / asked) if asked else 0.0
        return float(near + share * (k["dram_latency"] - near))

    copied, loaded = asked_bytes(_copied_sectors), asked_bytes(lambda n: n.get("l1_misses", 0))
    rest = max(0.0, workload.bytes_moved - copied)
    return {**k, "copy_latency": latency(workload.bytes_moved, copied), "load_latency": latency(rest, loaded)}


def _copied_sectors(n: Numbers) -> float:
    """That a CTA reads by cp.async and TMA, which pass the first-level cache by."""
    read = max(n.get("global_read_sectors", 0), n.get("tma_bytes", 0) / 32)
    return max(0.0, read - n.get("load_sectors", 0))


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
        loop: Loop | None,
        k: Mapping[str, Any],
    ) -> None:
        self.count = count
        self.k = {"copy_latency": k["memory_latency"], "load_latency": k["memory_latency"], **k}
        self.cluster = math.prod(launch.cluster)
        self.threads = math.prod(launch.block)
        self.groups = loop.warpgroups if loop else 0  # chains on wgmma; 0: the kernel has none
        # Its tiles come by boxes that a warp asks for which does nothing else.
        self.is_streamed = not self.groups and loop is not None and loop.lead > 0
        # Without a producer's: they ask for copies and sleep.
        self.warps = WARPS * self.groups or -(-math.prod(launch.block) // 32)
        resident = max(1, occupancy(launch, registers, smem_static_bytes, gpu))
        sms = _sms_of_clusters(self.cluster, gpu, lone=resident == 1)
        is_alone = self.count <= sms and loop is not None and (self.is_streamed or loop.most_ctas > 0)
        is_even = not launch.dependent or is_alone
        uneven = 1 if is_even else k["dependent_uneven"]
        self.together = min(resident, math.ceil(uneven * self.count / sms))  # on the busiest SM
        self.l1_bytes = _L1_BYTES + gpu.smem_per_sm - self.together * (launch.smem_bytes + _CTA_BYTES)
        self.slots = min(self.count, sms * self.together)
        self.busy_sms = min(self.count, sms)
        # Of one SM. Boxes come at the port's rate: no limit of the whole L2 shows in their times.
        by_boxes = self.groups or self.is_streamed
        self.l2_bytes_per_clk = _L2_PORT if by_boxes else min(_L2_PORT, gpu.l2_bytes_per_clk / self.busy_sms)


def _sms_of_clusters(cluster: int, gpu: GpuSpec, *, lone: bool) -> int:
    """SMs that get CTAs: a cluster lies on as many SMs of one part of the GPU as it has CTAs, or on pairs of
    SMs where an SM has room for one of its CTAs alone, and what is left of that part stays empty. All SMs,
    where it is not known how the GPU is divided.
    """
    parts, takes = constants()["sms_of_parts"], cluster + cluster % 2 if lone and cluster > 1 else cluster
    used = sum(sms // takes * cluster for sms in parts) if sum(parts) == gpu.sm_count else 0
    return used or gpu.sm_count


def _main(profile: Profile, ctas: _Ctas, work: Work, gpu: GpuSpec, *, spill_bytes: int) -> dict[str, float]:
    """Cycles of the launch that has the loop: of a CTA's start and end, in which DRAM rests, its makespan but
    for these, and each unit's as if it alone counted.
    """
    counts, steps = profile.launches[0], work.steps
    extra = profile.uncounted + ctas.warps * (profile.loop_instructions + spill_bytes / 4)
    own = {"operand_bytes": profile.operand_bytes, "lines": profile.load_lines}
    per_step = {**counts.per_step, **own, "l1_misses": _l1_misses(profile, ctas, work)}
    before = float(profile.uncounted_once)
    once, each = _units(counts.fixed, before, ctas, gpu), _units(per_step, extra, ctas, gpu)
    p = ctas.k["warpgroup_norm" if ctas.groups or ctas.is_streamed else "overlap_norm"]
    start = _start_cycles(ctas) + _norm(
        (_path_cycles(counts.fixed, before, ctas, gpu), *_unit_cycles(once, ctas)), p
    )
    # What it copies before its loop, beside no more of its ring than that is deep.
    first = min(profile.first_steps, max(steps)) * _common_bytes(profile, work)
    start += ctas.together * first / ctas.l2_bytes_per_clk / max(1, profile.stages - 1)
    if work.parts > 1:  # it leaves its part, and asks how many were left before
        start += ctas.k["counter_cycles"]
    waits = _step_cycles(profile, extra, ctas, gpu)
    step = _norm((waits, *_unit_cycles(each, ctas)), p)

    def end_cycles(cycles: float) -> float:
        return makespan([start + n * cycles for n in steps], work.copies, ctas.slots)

    merge = _merge_cycles(work, profile, ctas)
    busy = {unit: work.copies * (len(steps) * once[unit] + sum(steps) * each[unit]) for unit in each}
    terms = {unit: cycles / ctas.busy_sms for unit, cycles in busy.items()}
    whole = {"latency": end_cycles(waits) + merge, "makespan": end_cycles(step) + merge - start}
    return terms | whole | {"start": start}


def _l1_misses(profile: Profile, ctas: _Ctas, work: Work) -> float:
    """Sectors of a step's plain loads that a CTA gets from L2. What CTAs with the same share of the items all
    load, the first of them on an SM brings: of those that are there together, or of all where it stays.
    """
    counted = profile.launches[0].per_step.get("l1_misses", 0)
    if not work.common_bytes:
        return counted
    once = min(counted, profile.once_bytes / 32)
    common = min(counted - once, _common_bytes(profile, work) / 32)
    stays = work.common_bytes <= ctas.l1_bytes
    sharing = max(1.0, ctas.count / ctas.busy_sms if stays else ctas.together)
    return once + common * min(profile.splits, sharing) / sharing


def _common_bytes(profile: Profile, work: Work) -> float:
    """Of a step, that all CTAs with the same share of the items load."""
    return work.common_bytes / profile.splits / max(work.steps)


def _merge_cycles(work: Work, profile: Profile, ctas: _Ctas) -> float:
    """What the last CTA takes that merges the parts which others left in memory; and what those of a cluster
    take that divide the keys, and find the others' parts in their shared memory.
    """
    parts, k = work.parts, ctas.k
    if ctas.groups and profile.splits > 1 and ctas.cluster > 1:
        others = min(profile.splits, ctas.cluster) - 1
        return float(others * work.part_bytes / k["cluster_bytes_per_clk"])
    if parts == 1:
        return 0.0
    of_part = work.part_bytes * profile.row_cluster / ctas.cluster
    rounds = -(-parts // profile.merge_batch) * math.ceil(of_part / (profile.merge_bytes * ctas.threads))
    return float(k["meeting_cycles"] + rounds * k["memory_latency"] + parts * of_part / _L2_PORT)


def _start_cycles(ctas: _Ctas) -> float:
    """What a CTA waits before its first step and after its last; on wgmma its SM's other CTAs hide a part."""
    k = ctas.k
    if ctas.groups:
        return float(k["warpgroup_start"] / ctas.together)
    cycles = k["dram_latency"] + (k["cluster_start"] if ctas.cluster > 1 else 0)
    return float(cycles + (k["warpgroup_start"] if ctas.is_streamed else 0))


def _step_cycles(profile: Profile, extra: float, ctas: _Ctas, gpu: GpuSpec) -> float:
    """A step of a CTA that has its SM to itself, and what it waits in it for keys and values."""
    n, k = profile.launches[0].per_step, ctas.k
    if not ctas.groups:
        if n.get("critical_ldg", 0):
            rounds = n.get("critical_load_rounds", 0)
            if n.get("critical_mma", 0):  # what a step loads is asked for before its products
                rounds = min(rounds, 1.0)
            n = {**n, "critical_load_rounds": max(rounds, 1 / profile.stages)}
        boxes = n.get("tma", 0) / profile.fetchers * k["box_cycles"]
        if ctas.is_streamed:
            return _streamed_cycles(n, extra, asking=boxes, lead=profile.lead / 2, ctas=ctas, gpu=gpu)
        path = _path_cycles(n, extra, ctas, gpu)
        return float(max(path + exposed_copies(n, path, ctas.warps, k), boxes))
    chain = chain_cycles(n, _instructions(n) + extra, ctas.groups, gpu, k, overlaps=bool(profile.overlaps))
    chain += k["cluster_cycles"] if profile.cluster > 1 else 0
    return chain + exposed_boxes(n, chain, profile.lead / 2, ctas.l2_bytes_per_clk, k)


def _streamed_cycles(
    n: Numbers, extra: float, *, asking: float, lead: float, ctas: _Ctas, gpu: GpuSpec
) -> float:
    """A step whose tiles come by boxes to a ring: products and arithmetic one after the other, and what the
    ring does not hide of a tile from DRAM. Other loads are on their way while a tile is waited for.
    """
    k = {**ctas.k, "copy_latency": ctas.k["dram_latency"] + ctas.k["box_latency"]}
    arithmetic = _path_cycles({**n, "critical_load_rounds": 0.0}, extra, ctas, gpu)
    arithmetic += 2 * n.get("wgmma_macs", 0) / gpu.tensor_flops_per_clk / k["tensor_share"]
    arithmetic += k["mbarrier_cycles"] * n.get("mbarrier", 0) / ctas.warps
    path: float = max(arithmetic, load_cycles(n, k), asking)
    return path + exposed_boxes(n, path, lead, ctas.l2_bytes_per_clk, k)


def _loopless(counts: Counts, ctas: _Ctas, gpu: GpuSpec) -> dict[str, float]:
    """Cycles of a launch whose CTAs all do the same once."""
    units = _units(counts.fixed, 0.0, ctas, gpu)
    alone = constants()["memory_latency"] + _path_cycles(counts.fixed, 0.0, ctas, gpu)
    waves = ctas.count / ctas.slots
    terms = {unit: cycles * ctas.count / ctas.busy_sms for unit, cycles in units.items()}
    return terms | {
        "start": 0.0,
        "latency": waves * alone,
        "makespan": waves * _norm((alone, *_unit_cycles(units, ctas)), constants()["overlap_norm"]),
    }


def _instructions(n: Numbers, prefix: str = "") -> float:
    """Warp instructions that primitives stand for: of a CTA, or (prefix `critical_`) of its slowest path."""
    copies = constants()["cp_async_instructions"] * n.get(f"{prefix}cp_async", 0)
    products = WARPS * n.get(f"{prefix}wgmma", 0)  # each warp of the warpgroup issues it
    single = sum(n.get(prefix + name, 0) for name in _ONE_SLOT + _SYNCHRONISING + _MATH)
    return float(single + copies + products)


def _units(n: Numbers, extra: float, ctas: _Ctas, gpu: GpuSpec) -> dict[str, float]:
    """Cycles that each unit of an SM works for the counts of one CTA; `extra`: instructions besides them."""
    loads = n.get("load_sectors", 0)
    far = _copied_sectors(n) + n.get("l1_misses", 0) + n.get("global_write_sectors", 0)
    near = (n.get("smem_wavefronts", 0) + n.get("shfl", 0)) * 128 / gpu.smem_bytes_per_clk
    operands = n.get("wgmma_macs", 0) / _MACS_PER_B_BYTE + n.get("operand_bytes", 0)
    near += (n.get("tma_bytes", 0) + operands) / gpu.smem_bytes_per_clk
    products = n.get("mma", 0) * MMA_FLOPS / gpu.mma_flops_per_clk
    products += 2 * n.get("wgmma_macs", 0) / gpu.tensor_flops_per_clk / ctas.k["tensor_share"]
    return {
        "tensor": products,
        "exp": (n.get("ex2", 0) + n.get("rcp", 0) + n.get("lg2", 0)) * 32 / gpu.ex2_per_clk,
        "issue": (_instructions(n) + extra) / SCHEDULERS,
        "shared": near + max(n.get("ldg", 0), loads / _L1_SECTORS, ctas.k["line_cycles"] * n.get("lines", 0)),
        "l2": far * 32 / ctas.l2_bytes_per_clk,
    }


def _path_cycles(n: Numbers, extra: float, ctas: _Ctas, gpu: GpuSpec) -> float:
    """Cycles along the slowest path of a CTA that has its SM to itself, copies in flight left out."""
    together, k = _instructions(n) + extra, ctas.k
    if ctas.groups:
        return chain_cycles(n, together, ctas.groups, gpu, k)
    return path_cycles(n, _instructions(n, "critical_") + extra / ctas.warps, together, ctas.warps, gpu, k)


def _unit_cycles(units: Numbers, ctas: _Ctas) -> tuple[float, ...]:
    """Cycles of each unit for all CTAs on the SM; the busiest scheduler counts, not the mean."""
    mean = ctas.warps * ctas.together / SCHEDULERS
    uneven = math.ceil(mean) / mean
    return tuple(ctas.together * n * (uneven if u in _PER_SCHEDULER else 1) for u, n in units.items())


def _norm(cycles: Iterable[float], p: float) -> float:
    return float(sum(c**p for c in cycles) ** (1 / p))


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


PROPORTIONS = (  # all but the last in powers of two
    "products",  # of a row and an item, that the busiest SM computes
    "products_of_a_warp",
    "warps",  # on that SM
    "steps",  # that it takes one after the other
    "rows",  # of a CTA
    "items",  # of a step
    "shared_bytes",  # on that SM
    "launches",
)


def proportions_on(problem: Problem, family: "Family", gpu: GpuSpec) -> Proportions:
    """The proportions of the family's valid genomes, means over the problem's workloads."""
    quick = [family.quick_names(workload.compile_key(gpu.arch), gpu) for workload in problem.workloads]
    asked = family.shape_names()
    # By workload and what its shapes depend on: half of all genomes have another's.
    known: dict[tuple[int, tuple[Any, ...]], tuple[float, ...]] = {}

    def of(genome: Genome) -> tuple[float, ...]:
        each, values = [], genome.as_dict()
        for at, (workload, names_of) in enumerate(zip(problem.workloads, quick, strict=True)):
            names = names_of(values)
            shape = at, tuple(names.get(name) for name in asked)
            if shape not in known:
                launches = family.shapes_of(names, workload)
                known[shape] = _proportions(launches, family.loop(names), workload, gpu)
            each.append(known[shape])
        return tuple(sum(column) / len(column) for column in zip(*each, strict=True))

    return Proportions(PROPORTIONS, of, sizes_of(problem, gpu))


def sizes_of(problem: Problem, gpu: GpuSpec) -> tuple[float, ...]:
    """Logarithms of the problem's numbers by name, means over its workloads; a condition that holds is 16."""
    each = [{**workload.names(), **workload.compile_key(gpu.arch).names()} for workload in problem.workloads]
    numbers = sorted(name for name, value in each[0].items() if isinstance(value, int | float))
    return tuple(sum(_log(known[name]) for known in each) / len(each) for name in numbers)


def _log(number: float) -> float:
    return math.log2(16 if number is True else max(1, number))


def _proportions(
    launches: tuple[LaunchConfig, ...], loop: Loop, workload: Workload, gpu: GpuSpec
) -> tuple[float, ...]:
    launch, work = launches[loop.before], operation_of(workload).work(workload, loop)
    ctas = at_work(launch, len(work.steps) * work.copies, work.batch, gpu.sm_count)
    # Registers are the compiler's to choose: as if they were no limit.
    resident = max(1, occupancy(launch, 1, 0, gpu))
    together = min(resident, -(-ctas // gpu.sm_count))
    steps = _steps_of_the_last(work.steps, work.copies, min(ctas, gpu.sm_count * together))
    warps = together * -(-math.prod(launch.block) // 32)
    products = steps * together * loop.rows * loop.keys
    shared = together * (launch.smem_bytes + 1)
    counted = (products, products / warps, warps, steps, loop.rows, loop.keys, shared)
    return *(math.log2(max(1.0, each)) for each in counted), float(len(launches))


@lru_cache(maxsize=1024)  # genomes with the same tile have the same
def _steps_of_the_last(steps: tuple[int, ...], copies: int, slots: int) -> float:
    return makespan([float(each) for each in steps], copies, slots)
