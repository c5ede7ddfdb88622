"""Verdicts of a batch of launches beside those of launches one by one, and the seconds that each take.

    python -m scripts.validation.batch [--out FILE] [--every N] [--sizes]

Of the first genome of each family under a few compile keys, of the archive's champions for those, and of the
self-test's frauds that fail by their numbers. Needs a GPU. A process for each compile key; what loses one is
noted, and the rest of its key goes on in another.
"""

import argparse
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evoflash.champions import champion_today
from evoflash.evaluation import Candidate, Rung, Verdict
from evoflash.gpu import launcher
from evoflash.gpu.launcher import LaunchRefusedError
from evoflash.gpu.process import cache, checks, rungs
from evoflash.gpu.process.checks import LARGE_LIMIT_S, SMALL_LIMIT_S, CheckSubject
from evoflash.gpu.process.rungs import GpuTask
from evoflash.isolation import IsolatedPool
from evoflash.kernels.family import families_for, load_family
from evoflash.kernels.nvrtc import compile_candidate
from evoflash.kernels.renderer import render
from evoflash.operations.attention.inputs import check_workloads
from evoflash.operations.attention.workload import AttentionWorkload, parse_workload
from evoflash.problem import parse_problem
from evoflash.space import Genome
from evoflash.specs import GpuSpec
from evoflash.trust.selftest import run as on_gpu
from evoflash.trust.selftest.corpus import corpus

AT_SIZE = ("s4k_d128,causal", "gqa4k_d128", "decode8k", "s16k_d128", "s2k_d64")  # of the archive's rows
PROBLEMS = ("mission", "b=2,h=8,hkv=2,s=1000,d=128,causal", "b=1,h=8,s=512,d=64,dtype=bf16,causal")
SEED, LIMIT_S, TIMES = 20261123, 240.0, 3
_FIELDS = ("rel_l2", "max_over_rms", "lse_error", "honest_ratio")


def honest_tasks(spec: GpuSpec, problem: str) -> list[GpuTask]:
    """The first seed of each family that serves the problem, and its champion."""
    whole = parse_problem(problem)
    workload, keys = parse_workload(problem), whole.compile_keys(spec.arch)
    found = [family.seeds_for(whole, family.space(keys, spec), spec)[:1] for family in families_for(spec)]
    best = champion_today(whole, spec)
    genomes = (*(one for each in found for one in each), *([best.genome] if best else ()))
    return [_task(genome, workload, spec) for genome in genomes]


def _task(genome: Genome, workload: AttentionWorkload, spec: GpuSpec) -> GpuTask:
    key, family = workload.compile_key(spec.arch), load_family(genome.family)
    candidate: Candidate = render(genome, key, spec)
    build = compile_candidate(candidate)
    return rungs.task_of(
        f"{genome.family} {genome.id}",
        spec,
        (build,),
        lambda shape: family.launches(genome, shape, spec),
        checks=check_workloads([key]),
        timed=(workload,),
        seed=SEED,
        is_deterministic=family.is_deterministic,
    )


def fraud_tasks(spec: GpuSpec) -> list[GpuTask]:
    """The frauds that a GPU's correctness rung must reject, and which the smoke test may let through."""
    tasks = []
    for fraud in corpus():
        if not fraud.measured.skip and set(fraud.measured.rungs) == {Rung.CORRECTNESS}:
            tasks.append(replace(on_gpu.task_of(fraud, spec, SEED), genome_id=f"fraud: {fraud.name}"))
    return tasks


def archived(spec: GpuSpec) -> list[GpuTask]:
    """The champions of a few large problems."""
    found = [(parse_workload(problem), champion_today(parse_problem(problem), spec)) for problem in AT_SIZE]
    tasks = [_task(each.genome, workload, spec) for workload, each in found if each is not None]
    return [replace(task, checks=()) for task in tasks]


def prepare(task: GpuTask) -> None:
    """The references, and the device's part of the batch."""
    cache.precompute_references(tuple(w for w, _ in task.checks), tuple(w for w, _ in task.timed), task.seed)


def compare(task: GpuTask) -> dict[str, Any]:
    """Both verdicts on all check shapes, in this process; what went wrong before there were any."""
    try:
        return _compared(task)
    except LaunchRefusedError as error:
        return {"kernel": task.genome_id, "lost": str(error)}


def _compared(task: GpuTask) -> dict[str, Any]:
    subjects = [
        CheckSubject(task.kernel(*each), each[0], task.seed, SMALL_LIMIT_S, task.is_deterministic)
        for each in task.checks
    ]
    workloads = tuple(workload for workload, _ in task.checks)
    batch = cache.check_batch(workloads, task.seed)
    assert batch is not None, "no room for the batch"
    kernels = [subject.kernel for subject in subjects]

    def at_once() -> list[Verdict]:
        return batch.verdicts(kernels, limit_s=SMALL_LIMIT_S, is_deterministic=task.is_deterministic)

    timed = [
        CheckSubject(task.kernel(*each), each[0], task.seed, LARGE_LIMIT_S, task.is_deterministic)
        for each in task.timed
    ]
    alone, alone_s = _guarded(lambda: [checks.on_check_shape(subject) for subject in subjects])
    together, first_s = _guarded(at_once)
    seconds = [_guarded(at_once)[1] for _ in range(TIMES)] if isinstance(together, list) else [first_s]
    seconds_alone = alone_s
    if isinstance(alone, list) and all(verdict.passed for verdict in alone):
        seconds_alone = min(_guarded(lambda: [checks.on_check_shape(s) for s in subjects])[1], alone_s)
    return {
        "kernel": task.genome_id,
        "shapes": [_beside(*pair) for pair in zip(alone, together, strict=True)]
        if isinstance(alone, list) and isinstance(together, list)
        else {"alone": str(alone), "together": str(together)},
        "alone_s": seconds_alone,
        "together_s": statistics.median(seconds),
        "together_first_s": first_s,
        "at_size": [_at_size(subject) for subject in timed],
    }


def at_size(task: GpuTask) -> dict[str, Any]:
    """Both verdicts at the benchmark's shape."""
    (each,) = task.timed
    subject = CheckSubject(task.kernel(*each), each[0], task.seed, LARGE_LIMIT_S, task.is_deterministic)
    return {"kernel": task.genome_id, "at_size": [_at_size(subject)]}


def _at_size(subject: CheckSubject) -> dict[str, Any]:
    began = time.monotonic()
    batch = cache.size_batch(subject.workload, subject.seed)
    made_s = time.monotonic() - began
    assert batch is not None, "no room for the batch"

    def at_once() -> list[Verdict]:
        exact = subject.is_deterministic
        return batch.verdicts([subject.kernel], limit_s=subject.limit_s, is_deterministic=exact)

    together, _ = _guarded(at_once)
    seconds = [_guarded(at_once)[1] for _ in range(TIMES)]
    _guarded(lambda: [checks._at_size_alone(subject)])
    alone, alone_s = _guarded(lambda: [checks._at_size_alone(subject)])
    if not isinstance(alone, list) or not isinstance(together, list):
        return {"workload": str(subject.workload), "alone": str(alone), "together": str(together)}
    times = {"made_s": made_s, "alone_s": alone_s, "together_s": statistics.median(seconds)}
    return _beside(alone[0], together[0]) | times


def _guarded(function: Callable[[], list[Verdict]]) -> tuple[list[Verdict] | str, float]:
    began = time.monotonic()
    try:
        verdicts: list[Verdict] | str = function()
    except Exception as error:  # what a kernel did
        verdicts = f"{type(error).__name__}: {error}"
    return verdicts, time.monotonic() - began


def _beside(alone: Verdict, together: Verdict) -> dict[str, Any]:
    pairs = {name: (getattr(alone, name), getattr(together, name)) for name in _FIELDS}
    # Of a kernel that fails, the old way measures no further than the first input that shows it.
    far = max((abs(a - b) / max(abs(a), 1e-300) for a, b in pairs.values() if a != b), default=0.0)
    return {
        "workload": alone.workload,
        "passed": (alone.passed, together.passed),
        "furthest": far if alone.passed and together.passed else None,
        "reasons": (alone.reason, together.reason),
    }


def run(groups: Sequence[Sequence[GpuTask]]) -> list[dict[str, Any]]:
    """All groups, their references at the same time, their kernels one after another."""
    pools = [IsolatedPool(1) for _ in groups]
    ready = [
        pool.submit(prepare, group[0], timeout_s=LIMIT_S) for pool, group in zip(pools, groups, strict=True)
    ]
    found = []
    for at, group in enumerate(groups):
        ready[at].result()
        for task in group:
            look = compare if task.checks else at_size
            ending = pools[at].submit(look, task, timeout_s=LIMIT_S).result()
            found.append(ending.value or {"kernel": task.genome_id, "lost": ending.reason})
    for pool in pools:
        pool.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--every", type=int, default=1, help="of the frauds only each n-th")
    parser.add_argument("--sizes", action="store_true", help="the benchmark's shapes alone, and no fraud")
    given = parser.parse_args()
    spec = launcher.present_spec(None)
    groups: dict[Any, list[GpuTask]] = defaultdict(list)
    for problem in PROBLEMS:
        for task in honest_tasks(spec, problem):
            at_size_only = replace(task, checks=()) if given.sizes else task
            groups[task.timed[0][0].compile_key(spec.arch)].append(at_size_only)
    for task in archived(spec):
        groups[task.timed[0][0]].append(task)
    for task in () if given.sizes else fraud_tasks(spec)[:: given.every]:
        groups[task.timed[0][0].compile_key(spec.arch)].append(task)
    found = run(list(groups.values()))
    text = json.dumps({"gpu": spec.name, "seed": SEED, "kernels": found}, indent=1)
    if given.out:
        given.out.write_text(text + "\n", encoding="utf-8")
    for each in found:
        print(summary(each))


def summary(found: dict[str, Any]) -> str:
    """One kernel in one line; one more for the benchmark's shape."""
    sizes = "".join(f"\n    at size: {each}" for each in found.get("at_size", ()))
    return f"{_summary(found)}{sizes}" if "shapes" in found or "lost" in found else found["kernel"] + sizes


def _summary(found: dict[str, Any]) -> str:
    if "lost" in found or isinstance(found["shapes"], dict):
        return f"{found['kernel']}: {found.get('lost') or found['shapes']}"
    shapes = found["shapes"]
    agree = all(each["passed"][0] == each["passed"][1] for each in shapes)
    far = max((each["furthest"] or 0.0 for each in shapes), default=0.0)
    bad = next((each for each in shapes if not all(each["passed"])), None)
    said = f" {bad['workload']}: {bad['reasons']}" if bad else ""
    return (
        f"{found['kernel']}: {'agree' if agree else 'DISAGREE'}, numbers within {far:.0e}, "
        f"{found['alone_s']:.3f} s alone, {1e3 * found['together_s']:.1f} ms together "
        f"(first {found['together_first_s']:.2f} s){said}"
    )


if __name__ == "__main__":
    main()
