"""Checks and times the genomes of a list, in turns with cuDNN, and ranks them; stores nothing.

For a first look at an idea before a search: checked on small shapes only, few samples, no interval. A line of
the list is a problem, a family, one of its seeds (or `-`) and values that differ from it:

    s2k_d128,causal flash_wgmma ping_pong rescale=speculative schedule=dynamic q_stages=2

    python -m scripts.searches.variants ideas.txt -o ideas.json
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.evaluation import Status
from evoflash.evaluators.prepare import PREPARE_LIMIT_S
from evoflash.evaluators.prepare import prepare as prepare_genome
from evoflash.gpu import launcher
from evoflash.gpu.baselines import baseline
from evoflash.gpu.process.rungs import GpuTask, check_task
from evoflash.gpu.timing.benchmark import Bench, KernelContender, capture, prepare, sample
from evoflash.isolation import IsolatedPool
from evoflash.kernels.family import load_family
from evoflash.operation import Workload
from evoflash.operations.attention.workload import parse_workload
from evoflash.problem import Problem, parse_problem
from evoflash.space import Genome, Value
from evoflash.specs import GpuSpec, load_gpu
from scripts.command_line import command
from scripts.families.gene_timing import task_of


@dataclass(frozen=True, slots=True)
class Variant:
    """A line of the list."""

    problem: str
    words: str  # what it says beside the problem
    genome: Genome | None = None
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Round:
    """The variants of one problem for the GPU process."""

    workload: Workload
    spec: GpuSpec
    tasks: tuple[tuple[str, GpuTask], ...]
    samples: int
    limit_s: float


def read(path: Path, spec: GpuSpec) -> list[Variant]:
    """The lines of a list; what is not valid there keeps the checks that it fails."""
    lines = [line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
    return [_variant(line, spec) for line in lines if line]


def _variant(line: str, spec: GpuSpec) -> Variant:
    problem, family_name, seed, *given = line.split()
    family = load_family(family_name)
    space = family.space(parse_problem(problem).compile_keys(spec.arch), spec)
    start = {each.name: dict(each.values) for each in family.seeds}[seed] if seed != "-" else {}
    values: dict[str, Value] = {**start, **dict(map(_assignment, given))}
    genome = space.genome(values)
    stray = sorted(set(dict(map(_assignment, given))) - set(genome.as_dict()))
    why_not = ", ".join([*space.violations(genome), *(f"{name} is inactive" for name in stray)])
    return Variant(problem, " ".join([family_name, seed, *given]), genome, why_not)


def _assignment(text: str) -> tuple[str, Value]:
    name, _, value = text.partition("=")
    return name, int(value) if value.isdigit() else value


def hold(work: Round) -> list[dict[str, Any]]:
    """In a GPU process: every variant checked, those that pass timed in turns with cuDNN."""
    bench = Bench(work.workload, spec=work.spec, seed=0)
    protocol, graphs = bench.protocols[0], {}
    found: list[dict[str, Any]] = []
    rival = baseline("sdpa_cudnn", bench)
    graphs["sdpa_cudnn"] = capture(rival, bench, protocol)
    for words, task in work.tasks:
        outcome = check_task(task)
        if outcome.status is not Status.CORRECT:
            found.append({"words": words, "failure": f"{outcome.status}: {outcome.reason}"})
            if outcome.process_lost:
                return found
            continue
        launches = dict(task.timed)[work.workload]
        graphs[words] = capture(KernelContender(words, task.kernel(work.workload, launches)), bench, protocol)
    prepare(graphs["sdpa_cudnn"][0], bench, protocol)
    samples: dict[str, list[float]] = {name: [] for name in graphs}
    rng, until = np.random.default_rng(0), time.monotonic() + work.limit_s
    while min(map(len, samples.values())) < work.samples and time.monotonic() < until:
        for name in rng.permutation(list(graphs)):
            replay, launches_in_it = graphs[name]
            samples[name].append(sample(replay, bench, protocol, launches=launches_in_it))
    rival_us = float(np.median(samples["sdpa_cudnn"]))
    for name, times in samples.items():
        us = float(np.median(times))
        found.append({"words": name, "us": us, "over_cudnn": us / rival_us, "samples_us": times})
    return sorted(found, key=lambda each: float(each.get("us", np.inf)))


def measured(variants: Sequence[Variant], spec: GpuSpec, options: argparse.Namespace) -> list[dict[str, Any]]:
    """A record for each problem, written as soon as it is there."""
    records: list[dict[str, Any]] = []
    with IsolatedPool(options.workers) as pool:
        futures = {
            each: pool.submit(
                prepare_genome, each.genome, Problem(parse_problem(each.problem).workloads), spec, False, 0,
                timeout_s=PREPARE_LIMIT_S,
            )
            for each in variants
            if not each.why_not and each.genome is not None
        }  # fmt: skip
        prepared = {each: future.result() for each, future in futures.items()}
    for problem, group in groupby(variants, key=lambda each: each.problem):
        workload, members = parse_workload(problem), list(group)
        found: list[dict[str, Any]] = [
            {"words": each.words, "failure": each.why_not} for each in members if each.why_not
        ]
        tasks = []
        for each in members:
            made = prepared[each].value if each in prepared else None
            if made is None or made.failure or each.genome is None:
                if each in prepared:
                    found.append({"words": each.words, "failure": str(made.failure if made else "not made")})
                continue
            tasks.append((each.words, task_of(each.genome, made, workload, spec, 0)))
        work = Round(workload, spec, tuple(tasks), options.samples, options.limit)
        with IsolatedPool(1, initializer=launcher.warm_up) as pool:
            ending = pool.submit(hold, work, timeout_s=options.limit + 120.0).result()
        found += ending.value or [{"words": "all", "failure": f"{ending.status}: {ending.reason}"}]
        records.append({"problem": problem, "variants": found})
        show(records[-1])
        record = {"command": command(), "environment": launcher.present_gpu().device_name}
        options.output.write_text(json.dumps(record | {"rows": records}, indent=1) + "\n", encoding="utf-8")
    return records


def show(record: dict[str, Any]) -> None:
    """One problem's ranking."""
    print(record["problem"], flush=True)
    for each in record["variants"]:
        said = each.get("failure") or f"{each['us']:9.2f} us  {each['over_cudnn']:.3f} of cuDNN"
        print(f"  {said}  {each['words']}", flush=True)


def main() -> int:
    """Compile what the list names, then one GPU process for each problem."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("list", type=Path)
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--limit", type=float, default=30.0, help="seconds of timing for each problem")
    parser.add_argument("--compile-only", action="store_true", help="say what each line becomes; no GPU")
    parser.add_argument("-o", "--output", type=Path, default=Path("variants.json"))
    options = parser.parse_args()
    spec = load_gpu(options.gpu)
    variants = read(options.list, spec)
    if options.compile_only:
        for each in variants:
            print(each.why_not or "valid", each.problem, each.words)
        return 0
    measured(variants, spec, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
