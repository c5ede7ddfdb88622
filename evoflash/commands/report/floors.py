"""What bounds a winner: the GPU's rooflines for its workloads, and the model's terms where it was estimated.

A floor is a time that one unit needs for the work that cannot be avoided. The exponentials' is no bound of
physics: a kernel may compute a part of them elsewhere, as polynomials. Nothing is measured here.
"""

from collections.abc import Sequence

from evoflash.commands.report.outcomes import History
from evoflash.commands.report.winner_record import Floor, Point, Roofline
from evoflash.errors import EvoflashError
from evoflash.evaluation import SCORED, Baseline, Evaluation, Timing
from evoflash.gpu import GpuSpec, load_gpu
from evoflash.operation import Workload
from evoflash.operation.registry import operation_of
from evoflash.problem import parse_problem


def rooflines(
    best: Evaluation | None, history: History, baselines: Sequence[Baseline]
) -> tuple[Roofline, ...]:
    """One for each workload; none without a winner, or where problem or GPU are not ours (a recording's)."""
    if best is None:
        return ()
    try:
        gpu, workloads = load_gpu(best.gpu), parse_problem(best.problem).workloads
    except EvoflashError:
        return ()
    seeds = [each for proposal, each in history if proposal.operator == "seed" and each.is_correct]
    seed = min(seeds, key=lambda each: each.score_us or 0.0, default=None)
    return tuple(_roofline(workload, gpu, best, seed, baselines) for workload in workloads)


def _roofline(
    workload: Workload,
    gpu: GpuSpec,
    best: Evaluation,
    seed: Evaluation | None,
    baselines: Sequence[Baseline],
) -> Roofline:
    ours = _timing(best.timings, workload)
    us = ours.median_us if ours else best.score_us if "+" not in best.problem else None
    terms = sorted(ours.terms.items(), key=lambda term: -term[1]) if ours else []
    points = [_point("winner", best.genome.id, workload, us)]
    if seed is not None and seed.genome.id != best.genome.id:
        points.append(_point("seed", seed.genome.id, workload, _us(seed.timings, workload)))
    points += [_point("baseline", each.name, workload, _us(each.timings, workload)) for each in baselines]
    return Roofline(
        workload=str(workload),
        flops=workload.flops,
        bytes_moved=workload.bytes_moved,
        intensity=workload.flops / workload.bytes_moved,
        fits_l2=workload.bytes_moved <= gpu.l2_bytes,
        peak_tflops=_tflops(gpu, gpu.tensor_flops_per_clk),
        mma_tflops=_tflops(gpu, gpu.mma_flops_per_clk),
        dram_gbps=gpu.dram_gbps,
        floors=_floors(workload, gpu, us),
        points=tuple(point for point in points if point is not None),
        terms=tuple(terms),
    )


def _tflops(gpu: GpuSpec, flops_per_clk: int) -> float:
    return gpu.sm_count * flops_per_clk * gpu.clock_mhz / 1e6


def _timing(timings: Sequence[Timing], workload: Workload) -> Timing | None:
    """The one that a score stands for."""
    mine = {timing.protocol: timing for timing in timings if timing.workload == str(workload)}
    return next((mine[name] for name in SCORED if name in mine), None)


def _us(timings: Sequence[Timing], workload: Workload) -> float | None:
    found = _timing(timings, workload)
    return found.median_us if found else None


def _point(kind: str, name: str, workload: Workload, us: float | None) -> Point | None:
    return Point(name, kind, us, workload.flops / us / 1e6) if us else None


def _floors(workload: Workload, gpu: GpuSpec, us: float | None) -> tuple[Floor, ...]:
    """Each as if it alone bounded the kernel, at boost clock."""
    cycles_us = gpu.sm_count * gpu.clock_mhz
    found = [
        ("tensor", workload.flops / (cycles_us * gpu.tensor_flops_per_clk), "its best matrix instruction"),
        ("mma.sync", workload.flops / (cycles_us * gpu.mma_flops_per_clk), "the same through mma.sync"),
        ("dram", workload.bytes_moved / (gpu.dram_gbps * 1e3), _of_dram(workload, gpu)),
    ]
    count = operation_of(workload).exponentials
    if count is not None:
        exp_us = count(workload) / (cycles_us * gpu.ex2_per_clk)
        found.append(("exp", exp_us, "on the special-function units; a kernel may compute some elsewhere"))
    if gpu.mma_flops_per_clk == gpu.tensor_flops_per_clk:
        del found[1]
    return tuple(
        Floor(name, floor_us, workload.flops / floor_us / 1e6, floor_us / us if us else None, says)
        for name, floor_us, says in found
    )


def _of_dram(workload: Workload, gpu: GpuSpec) -> str:
    if workload.bytes_moved <= gpu.l2_bytes:
        return "inputs read once, outputs written once; they fit L2, where they need not come from DRAM"
    return "inputs read once, outputs written once"
