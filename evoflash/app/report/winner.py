"""The winner of a run, how sure its time is, what bounds it and what was checked. Times nothing.

Which kernel wins is the store's rule (`Store.best_of`). Kernels that cannot be told apart from it are named.
The pairs of the final timing are noted beside the run (app/search/session.py); a run of an older evoflash has
none, and a model's estimate has no interval. What bounds the winner are the GPU's rooflines for its
workloads, and the model's terms where it was estimated.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from evoflash.app.export import export_commands
from evoflash.app.report.candidates import History, archived_us, fastest_seed
from evoflash.app.report.record import (
    CompiledSource,
    PairedRatio,
    Point,
    Roofline,
    RooflineBound,
    SourceFinding,
    Tie,
    VerdictOn,
    WinnerKernel,
)
from evoflash.champions.evidence import archived_for, known_times
from evoflash.errors import EvoflashError, UsageError, without_passwords
from evoflash.estimate_error import error_sentence, estimate_error, ties
from evoflash.evaluation import SCORED, Baseline, Build, Evaluation, Timing, was_timed_again
from evoflash.gpu.timing.paired import PairedComparison
from evoflash.hardware_counters import KernelProfile
from evoflash.kernels.nvrtc import cached_source
from evoflash.operation import operation_of
from evoflash.problem import has_lse, parse_problem
from evoflash.specs import GpuSpec, load_gpu
from evoflash.store.rows import score_row
from evoflash.workload import CompileKey, Workload


def rooflines(
    best: Evaluation | None,
    history: History,
    baselines: Sequence[Baseline],
    profile: KernelProfile | None,
) -> tuple[Roofline, ...]:
    """One for each workload; none without a winner, or where problem or GPU are not ours (a recording's).

    `profile` are the winner's hardware counters.
    """
    if best is None:
        return ()
    try:
        gpu, workloads = load_gpu(best.gpu), parse_problem(best.problem).workloads
    except EvoflashError:
        return ()
    seeds = [each for proposal, each in history if proposal.operator == "seed" and each.is_correct]
    seed = min(seeds, key=lambda each: each.score_us or 0.0, default=None)
    found = (_roofline(workload, gpu, best, seed, baselines) for workload in workloads)
    launches = profile.launches if profile else {}
    return tuple(
        replace(each, counters=tuple(launch.as_dict() for launch in launches.get(each.workload, ())))
        for each in found
    )


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
        guess=best.bound,
        counters=(),
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
    return Point(name, kind, us, workload.reported_flops / us / 1e6) if us else None


def _floors(workload: Workload, gpu: GpuSpec, us: float | None) -> tuple[RooflineBound, ...]:
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
        RooflineBound(
            name, floor_us, workload.reported_flops / floor_us / 1e6, floor_us / us if us else None, says
        )
        for name, floor_us, says in found
    )


def _of_dram(workload: Workload, gpu: GpuSpec) -> str:
    if workload.bytes_moved <= gpu.l2_bytes:
        return "inputs read once, outputs written once; they fit L2, where they need not come from DRAM"
    return "inputs read once, outputs written once"


STORED = (
    "The checks above are those of the run. `evoflash report --check` also runs the emulator again, under "
    "more schedules, and lists what it finds by line."
)
RUNS = 4  # of each shape, as `evoflash check` makes them


def kernel(best: Evaluation | None, *, is_checked: bool) -> WinnerKernel | None:
    """The source, from the cache of what was compiled or rendered anew, and the stored checks; None without a
    winner.

    `is_checked`: the emulator runs it, too, as `evoflash check` does: some seconds.
    """
    if best is None:
        return None
    checks = tuple(
        verdict if has_lse(verdict.workload) else replace(verdict, lse_error=math.nan)
        for verdict in best.verdicts
    )
    try:
        sources, of_version = _sources(best)
        export = tuple(map(without_passwords, export_commands(best.genome, best.problem, best.gpu)))
    except EvoflashError as error:  # a recording's, or a family that is gone: the rest is shown without
        return WinnerKernel((), checks, "", 0, (), (), f"There is no source: {error}")
    said, runs, found = _emulate_winner(best) if is_checked else (STORED, 0, ())
    return WinnerKernel(sources, checks, said, runs, found, export, of_version)


def _sources(best: Evaluation) -> tuple[tuple[CompiledSource, ...], str]:
    """One for each compile key, and a remark where they are not what the run compiled."""
    gpu = load_gpu(best.gpu)
    builds = {build.compile_key: build for build in best.builds}
    keys = parse_problem(best.problem).compile_keys(gpu.arch)
    kept = {key: cached_source(builds[key]) for key in keys if key in builds}
    if all(kept.get(key) for key in keys):
        return tuple(_source(key, kept[key] or "", builds[key]) for key in keys), ""
    from evoflash.kernels.edited_text import render_edited  # it takes as long as all the rest of a report

    texts = {key: render_edited(best.genome, key, gpu).source for key in keys}
    return tuple(_source(key, text, builds.get(key)) for key, text in texts.items()), _of_version(best)


def _of_version(best: Evaluation) -> str:
    from evoflash.kernels.family import load_family

    now = load_family(best.genome.family).version
    if now == best.genome.version:
        return ""
    return (
        f"The run evaluated version {best.genome.version} of {best.genome.family}; this is the same genome "
        f"in today's version {now}."
    )


def _source(key: CompileKey, text: str, build: Build | None) -> CompiledSource:
    return CompiledSource(
        compile_key=str(key),
        text=text,
        lines=len(text.splitlines()),
        registers=build.registers if build else None,
        spill_bytes=build.spill_bytes if build else None,
        smem_static_bytes=build.smem_static_bytes if build else None,
        remarks=build.warnings if build else (),
    )


def _emulate_winner(best: Evaluation) -> tuple[str, int, tuple[SourceFinding, ...]]:
    from evoflash.app.check.runs import check_kernel
    from evoflash.app.check.subject import of_genome
    from evoflash.notices import working

    subjects = of_genome(best.genome, parse_problem(best.problem), load_gpu(best.gpu))
    with working(f"running {best.genome.id} in the emulator"):
        checked = [check_kernel(subject, runs=RUNS, seed=1) for subject in subjects]
    found = tuple(
        SourceFinding(str(each.severity), each.kind, each.line, each.message, each.runs)
        for one in checked
        for each in one.findings
    )
    runs = sum(len(one.runs) for one in checked)
    shapes = len({run.case for one in checked for run in one.runs})
    notes = " ".join(note for one in checked for note in one.notes)
    said = f"The emulator ran it for this report {runs} times on {shapes} shapes: "
    outcome = f"{len(found)} findings." if found else "no findings."
    return f"{said}{outcome} {notes}".strip(), runs, found


def verdict(
    best: Evaluation | None,
    history: History,
    baselines: Sequence[Baseline],
    pairs: Sequence[PairedComparison],
) -> VerdictOn | None:
    """What is said of the winner; None where no kernel was correct. `pairs` are of the winner over others."""
    if best is None or best.score_us is None:
        return None
    us, seed = best.score_us, fastest_seed(history)
    from_us = seed.score_us if seed else None
    measured_us, seed_measured_us = archived_us(best), archived_us(seed) if seed else None
    is_alike = (measured_us is None) == (seed_measured_us is None)
    spread = score_row(us, best.timings)
    libraries = {baseline.name for baseline in baselines}
    known = tuple(_pair(each, libraries) for each in pairs if each.first == best.genome.id)
    ties, why = _ties(best, history, known)
    has_spread = spread["n"] > 1
    return VerdictOn(
        id=best.genome.id,
        family=best.genome.family,
        values=best.genome.as_dict(),
        us=us,
        p10_us=spread["p10_us"] if has_spread else None,
        p90_us=spread["p90_us"] if has_spread else None,
        n=spread["n"],
        protocol=spread["protocol"],
        is_final=was_timed_again(best),
        tflops=_reported_tflops(best.problem, us),
        seed_us=from_us,
        over_seed=(seed_measured_us or from_us) / (measured_us or us) if from_us and is_alike else None,
        measured_us=measured_us,
        seed_measured_us=seed_measured_us,
        likely_us=best.likely_us,
        pairs=known,
        ties=ties,
        has_known_error=not best.is_estimate or estimate_error(best.genome.family) is not None,
        says=(*_from_archive(best, seed), *why, *_beside(known, baselines, best)),
    )


def _reported_tflops(problem: str, us: float) -> float | None:
    """At the geometric means over the workloads, by the field's convention; None of what is not ours."""
    try:
        return parse_problem(problem).reported_flops / us / 1e6
    except UsageError:
        return None


def _pair(found: PairedComparison, libraries: set[str]) -> PairedRatio:
    return PairedRatio(
        other=found.second,
        is_baseline=found.second in libraries,
        workload=found.workload,
        protocol=found.protocol,
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        confidence=found.confidence,
        n=found.n,
        answer=found.answer,
    )


# ---- ties


def _ties(
    best: Evaluation, history: History, pairs: Sequence[PairedRatio]
) -> tuple[tuple[Tie, ...], tuple[str, ...]]:
    """Kernels that are not clearly apart from the winner, and by what that was judged."""
    others = [each for _, each in history if _is_other(each, best)]
    ours = [pair for pair in pairs if not pair.is_baseline]
    if ours:
        ids = {pair.other for pair in ours}
        clear = {pair.other for pair in ours if pair.answer != "unclear"}
        tied = [each for each in others if each.genome.id in ids - clear]
        return _as_ties(tied), (_of_pairs(len(ids), len(tied), ours[0]),)
    if was_timed_again(best):
        tied = [each for each in others if was_timed_again(each) and _overlap(each, best)]
        alone = "No other finalist was timed in turns with it." if not tied else ""
        return _as_ties(tied), (alone or "No interval is stored; ties are finalists whose spreads overlap.",)
    if best.is_estimate:
        return _of_estimates(best, history)
    tied = [each for each in others if _time_text(each) == _time_text(best)]
    return _as_ties(tied), (_of_digits(len(tied)),)


def _of_estimates(best: Evaluation, history: History) -> tuple[tuple[Tie, ...], tuple[str, ...]]:
    """Kernels whose estimates are equal, or nearer than the model's error; screened ones are not proven."""
    others = [each for _, each in history if each.is_rankable and _is_another(each, best)]
    error = estimate_error(best.genome.family)
    within = (best.score_us or 0.0) * (error.spread if error else 1.0)
    equal = _time_text(best)
    tied = [e for e in others if (e.score_us or math.inf) <= within or _time_text(e) == equal]
    found = ties(
        [best.score_us or 0.0, *(each.score_us or math.inf for each in tied)],
        best.genome.family,
        unproven=[each.score_us or math.inf for each in tied if each.is_screened],
    )
    alone = () if tied else ("No other kernel has the same estimate.",)
    no_interval = "A model's estimate has no interval."
    how_far = error_sentence(best.gpu, best.genome.family, best.model_version)
    return _as_ties(tied), (no_interval, *(found.says if found else ()), *alone, how_far)


def _is_another(each: Evaluation, best: Evaluation) -> bool:
    is_own = not each.duplicate_of and each.genome.id != best.genome.id
    return is_own and each.score_us is not None and not each.is_censored


def _is_other(each: Evaluation, best: Evaluation) -> bool:
    return each.is_correct and _is_another(each, best)


def _as_ties(tied: Sequence[Evaluation]) -> tuple[Tie, ...]:
    found = [Tie(e.genome.id, e.genome.family, e.score_us or 0.0, str(e.status)) for e in tied]
    return tuple(sorted(found, key=lambda tie: tie.us))


def _of_pairs(others: int, tied: int, pair: PairedRatio) -> str:
    sure = f"{pair.confidence:.1%} intervals"
    clear = f"It was timed in turns with {others} other finalist{'s' if others > 1 else ''}; by {sure} "
    return clear + (f"{tied} of them cannot be told apart from it." if tied else "it is apart from all.")


def _of_digits(tied: int) -> str:
    alike = f"{tied} other kernels have" if tied > 1 else f"{'1' if tied else 'no'} other kernel has"
    return f"It was not timed again in turns with others; {alike} the same time to the four digits shown."


def _time_text(each: Evaluation) -> str:
    return f"{each.score_us:.4g}"


def _overlap(one: Evaluation, other: Evaluation) -> bool:
    mine, theirs = _scored_timing(one), _scored_timing(other)
    if mine is None or theirs is None or mine.spread_us is None or theirs.spread_us is None:
        return False
    (low, high), (other_low, other_high) = mine.spread_us, theirs.spread_us
    return low <= other_high and other_low <= high


def _scored_timing(each: Evaluation) -> Timing | None:
    by_protocol = {timing.protocol: timing for timing in each.timings}
    return next((by_protocol[name] for name in SCORED if name in by_protocol), None)


# ---- beside the archive and the libraries


def _from_archive(best: Evaluation, seed: Evaluation | None) -> tuple[str, ...]:
    """What the archive measured of this problem, beside the estimates of winner and seed."""
    known = archived_for(best.problem, best.gpu) if best.is_estimate else None
    if known is None:
        return ()
    is_of = ({seed.genome: "the fastest seed"} if seed else {}) | {best.genome: "the winner"}
    mine = next((each for each in (best, seed) if each and each.genome == known.genome), None)
    who = f", {is_of[mine.genome]}," if mine else ""
    found = [f"The archive has {known.genome.id}{who} measured for this: {known.time}."]
    if mine is not None:
        found.append(
            f"Of that kernel {known_times(mine.genome, mine.problem, mine.gpu, [mine]).calibration}."
        )
    if best.genome != known.genome:
        found.append("No measurement says that the winner is faster than that: its time is the model's.")
    if known.rivals_in_words:
        found.append(f"Libraries there: {known.rivals_in_words}.")
    return tuple(found)


def _beside(pairs: Sequence[PairedRatio], baselines: Sequence[Baseline], best: Evaluation) -> tuple[str, ...]:
    """The winner against the libraries' fastest kernel."""
    if not baselines:
        return ("No library was timed in this run.",)
    rival = min(baselines, key=lambda each: each.score_us)
    ratio = rival.score_us / (best.score_us or 1.0)
    found = [_interval(pair) for pair in pairs if pair.other == rival.name]
    interval = found[0] if len(found) == 1 else ""
    return (f"The fastest library, {rival.name}, takes {ratio:.3f} times as long{interval}.",)


def _interval(pair: PairedRatio) -> str:
    span = f"{1 / pair.high:.3f} to {1 / pair.low:.3f}"
    return f" ({pair.confidence:.1%} interval {span}; this kernel is {pair.answer})"
