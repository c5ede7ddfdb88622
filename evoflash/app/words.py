"""Times, costs, genomes and export commands in words, as reports and tables say them. Stores nothing.

A genome is told by where it differs from the nearest seed of its family. What a run took is told in money too
where a price is known.
"""

import math
from typing import TYPE_CHECKING

from evoflash.errors import EvoflashError, UsageError
from evoflash.evaluation import Basis, Evaluation, Timing
from evoflash.kernels.family import load_family
from evoflash.notices import db_words, is_verbose
from evoflash.operation import CompileKey, Workload
from evoflash.problem import Problem, parse_problem
from evoflash.space import Genome, Value
from evoflash.specs import load_gpu
from evoflash.store.standing import ComputeCost, RunStatus

if TYPE_CHECKING:
    pass


def export_commands(genome: Genome, problem: str, gpu: str, *, is_known: bool = True) -> list[str]:
    """The commands that export it, one for each kernel that its problem needs.

    `is_known`: the id is enough, because it was evaluated for one problem and GPU only.
    """
    parts = one_kernel_each(problem, load_gpu(gpu).arch)
    base = f"evoflash export {genome.id}{db_words()}"
    if len(parts) == 1 and is_known:
        return [base]
    return [f"{base} --problem {part} --gpu {gpu}" for part in parts]


def one_kernel_each(problem: str, arch: str) -> list[Problem]:
    """The problem's workloads, divided into those that one compiled kernel serves."""
    groups: dict[CompileKey, list[Workload]] = {}
    for workload in parse_problem(problem).workloads:
        groups.setdefault(workload.compile_key(arch), []).append(workload)
    return [Problem(tuple(workloads)) for workloads in groups.values()]


def values_line(genome: Genome, problem: str, gpu: str) -> str:
    """The values that the nearest seed of the family does not have; all of them with -v or without a seed."""
    mine, seed = genome.as_dict(), None if is_verbose() else _nearest_seed(genome, problem, gpu)
    if seed is None:
        return f"values    {_words(mine)}"
    if genome.values == seed.values:
        return f"values    those of seed {seed.id}"
    same = set(seed.values) & set(genome.values)
    others = {name: value for name, value in genome.values if (name, value) not in same}
    agree = f"{len(same)} of {len(mine)} as in seed {seed.id[:8]}"
    return f"values    {_words(others or mine)} ({agree}; -v shows all)"


def _words(values: dict[str, Value]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def _nearest_seed(genome: Genome, problem: str, gpu: str) -> Genome | None:
    """The seed that shares most values; None where the family has none for this, or is not here."""
    try:
        family, what, spec = load_family(genome.family), parse_problem(problem), load_gpu(gpu)
        seeds = family.seeds_for(what, family.space(what.compile_keys(spec.arch), spec), spec)
    except EvoflashError:
        return None
    return max(seeds, key=lambda seed: len(set(seed.values) & set(genome.values)), default=None)


def short(value: float) -> str:
    """Four digits, and never an exponent above 1000; a whole number whole."""
    if isinstance(value, int) or abs(value) >= 999.95:
        return f"{value:,.0f}"
    return f"{value:#.4g}".removesuffix(".")


def parse_price(price_per_hour: float | None) -> float | None:
    """The price of an hour of a GPU, as it was given. UsageError for a number that is no price."""
    if price_per_hour is not None and not 0 <= price_per_hour < math.inf:
        raise UsageError(f"--price-per-hour {price_per_hour:g}: give what an hour of the GPU costs, as 3.50.")
    return price_per_hour


def in_words(cost: ComputeCost | None, price_per_hour: float | None = None) -> str:
    """`3.6 GPU minutes, 12.4 CPU minutes`, with a price also the money; empty where it was not noted.

    Where no GPU was used, the CPU minutes alone.
    """
    if cost is None:
        return ""
    words = f"{minutes(cost.cpu_s)} CPU minutes"
    if not cost.gpu_s:
        return words
    words = f"{minutes(cost.gpu_s)} GPU minutes, {words}"
    if price_per_hour is None:
        return words
    return f"{words}; {money(cost, price_per_hour):.2f} at {price_per_hour:.2f} for a GPU hour"


def minutes(seconds: float) -> str:
    """`0.05`, `0.4`, `12.4` or `310`; `0` where there were none."""
    number = seconds / 60
    digits = 0 if number >= 100 or not number else 1 if number >= 0.095 else 2
    return f"{number:.{digits}f}"


def money(cost: ComputeCost, price_per_hour: float) -> float:
    """What the GPU cost, in the price's currency."""
    return cost.gpu_s / 3600 * price_per_hour


def as_dict(cost: ComputeCost | None, price_per_hour: float | None = None) -> dict[str, float | None]:
    """`gpu_minutes` and `cpu_minutes` (null where they were not noted), and with a price it and the money."""
    known = {
        "gpu_minutes": None if cost is None else cost.gpu_s / 60,
        "cpu_minutes": None if cost is None else cost.cpu_s / 60,
    }
    if price_per_hour is None:
        return known
    paid = None if cost is None else money(cost, price_per_hour)
    return known | {"price_per_hour": price_per_hour, "price": paid}


def in_a_line(evaluation: Evaluation) -> str:
    """Id, family and time, with the time's mark where it was not measured."""
    return f"{evaluation.genome.id}  {evaluation.genome.family}  {time_in_words(evaluation)}"


def _after(text: str, separator: str) -> str:
    return separator + text if text else ""


def time_in_words(evaluation: Evaluation) -> str:
    """The time that ranks a kernel, where it comes from, and its mark where it was not measured."""
    if evaluation.score_us is None:
        return "none"
    is_replay = evaluation.basis is Basis.REPLAYED
    if evaluation.is_estimate:
        bound = f", bound by {evaluation.bound}" if evaluation.bound else ""
        by = f"ESTIMATED by model {evaluation.model_version}, not measured"
        replayed = ", replayed from a recording" if is_replay else ""
        unproven = ", not proven to be right" if evaluation.is_screened else ""
        return f"~{evaluation.score_us:.2f} us {by}{replayed}{bound}{unproven}"
    if is_replay:
        return f"{evaluation.score_us:.2f} us replayed from a recording, not measured here"
    unproven = ", by a short look: not proven to be right" if evaluation.is_screened else ""
    return f"{evaluation.score_us:.2f} us {evaluation.basis}{unproven}"


def _timing(timing: Timing, *, is_estimate: bool) -> str:
    mark = "~" if is_estimate else ""
    tflops = parse_problem(timing.workload).workloads[0].reported_flops / timing.median_us / 1e6
    spread = f", p10 {timing.p10_us:.2f}, p90 {timing.p90_us:.2f}, n {timing.n}" if timing.n > 1 else ""
    clock = f", {timing.sm_clock_mhz} MHz" if timing.sm_clock_mhz else ""
    terms = ", ".join(f"{name} {us:.1f}" for name, us in sorted(timing.terms.items(), key=lambda x: -x[1]))
    bound = " at least" if timing.censored else ""
    speed = f"{mark}{timing.median_us:.2f} us = {mark}{tflops:.1f} TFLOPS"
    return (
        f"{timing.protocol}:{bound} {speed}{spread}{clock}"
        + _after(terms, "; terms in us: ")
        + _after(timing.throttle, "; throttled: ")
    )


def state(standing: RunStatus) -> str:
    """`running`, `finished` (its budget is spent) or `stopped` (the same command continues it)."""
    if standing.process is not None:
        return "running"
    spent = standing.run.budget and standing.evaluated >= standing.run.budget
    return "finished" if spent else "stopped"


def best(standing: RunStatus) -> str:
    """The best time, with the mark of an estimate."""
    return "" if standing.best_us is None else f"{'~' * standing.is_estimate}{standing.best_us:.2f}"
