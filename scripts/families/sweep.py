"""Compiles and emulates uniform valid genomes of whole families: how many compile, spill, pass the emulator.

Every genome is drawn under a compile key of its own (head_dim, dtype, mask, GQA ratio), from the seed and its
number alone, so that a failure can be made again. Needs no GPU and times nothing.

    python -m scripts.families.sweep --count 500 --families all --gpus l4,a100,h200 \\
        -o scripts/families/records/sweep.json
"""

import argparse
import json
import os
import statistics
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.errors import EvoflashError
from evoflash.evaluation import Rung
from evoflash.evaluators.prepare import PREPARE_LIMIT_S, Preparation, prepare
from evoflash.isolation import Ending, IsolatedPool
from evoflash.kernels.family import known_families, load_family
from evoflash.kernels.nvrtc import nvrtc_version
from evoflash.problem import Problem
from evoflash.space import Value
from evoflash.specs import load_gpu
from scripts.command_line import command
from scripts.families.draws import draw_key, space_of, workload_of
from scripts.families.in_flight import in_flight

_LIMIT_S = PREPARE_LIMIT_S + 120.0  # drawing included


@dataclass(frozen=True, slots=True)
class Task:
    """One genome to be drawn and looked at."""

    family: str
    gpu: str
    number: int
    seed: int
    emulate: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """How far one genome came. `stage` is where it stopped: render, compile, emulator, or "" for nowhere."""

    task: Task
    values: tuple[tuple[str, Value], ...] = ()
    problem: str = ""
    stage: str = ""
    reason: str = ""
    compiled: bool = False
    registers: int = 0
    spill_bytes: int = 0
    compile_s: float = 0.0

    @property
    def command(self) -> str:
        """What renders this kernel again."""
        task, values = self.task, " ".join(f"--set {k}={str(v).lower()}" for k, v in self.values)
        return f"evoflash export --family {task.family} {values} --problem {self.problem} --gpu {task.gpu}"


def tasks(
    families: Iterable[str], gpus: Iterable[str], *, count: int, seed: int, emulate: bool
) -> list[Task]:
    """All of them, families and GPUs in turns: what a time limit cuts off is missing everywhere alike."""
    pairs = [(f, g) for f in families for g in gpus if load_family(f).supports(load_gpu(g))]
    return [Task(f, g, number, seed, emulate) for number in range(count) for f, g in pairs]


def examine(task: Task) -> Outcome:
    """Draw the genome, compile it, and emulate it if it compiled; in a worker process."""
    family, gpu = load_family(task.family), load_gpu(task.gpu)
    rng = np.random.default_rng([task.seed, task.number, *map(_number, (task.family, task.gpu))])
    outcome = Outcome(task)
    try:
        key = draw_key(family, gpu, rng)
        problem = Problem((workload_of(key),))
        outcome = replace(outcome, problem=str(problem))
        genome = space_of(family, key, gpu).sample(rng)
        outcome = replace(outcome, values=genome.values)
        prepared = prepare(genome, problem, gpu, task.emulate, task.seed)
    except EvoflashError as error:  # no genome, or a template that fails on a valid one
        return replace(outcome, stage="render", reason=str(error))
    return _with(outcome, prepared)


def _number(word: str) -> int:
    return zlib.crc32(word.encode())


def _with(outcome: Outcome, prepared: Preparation) -> Outcome:
    for build in prepared.builds:
        outcome = replace(
            outcome,
            compiled=build.ok,
            registers=build.registers,
            spill_bytes=build.spill_bytes,
            compile_s=build.compile_s,
        )
    if prepared.failure is None:
        return outcome
    stage = "emulator" if prepared.failure.rung is Rung.PREFLIGHT else str(prepared.failure.rung)
    return replace(outcome, stage=stage, reason=f"{prepared.failure.status}: {prepared.failure.reason}")


def run(work: list[Task], *, workers: int, time_limit_s: float) -> Iterator[Outcome]:
    """Outcomes as they come, until the work or the time is over."""
    with IsolatedPool(workers) as pool:
        endings = in_flight(
            pool, examine, work, many=2 * workers, limit_s=_LIMIT_S, time_limit_s=time_limit_s
        )
        yield from (_outcome(task, ending) for task, ending in endings)


def _outcome(task: Task, ending: Ending[Outcome]) -> Outcome:
    return ending.value or Outcome(task, stage="process", reason=f"{ending.status}: {ending.reason}")


def summary(outcomes: list[Outcome]) -> dict[str, Any]:
    """The counts of one family on one GPU, the spills by gene value, and every failure."""
    compiled = [each for each in outcomes if each.compiled]
    failures = [each for each in outcomes if each.stage]
    emulated = [each for each in compiled if each.task.emulate]
    complaints = [each for each in failures if each.compiled]
    return {
        "genomes": len(outcomes),
        "compiled": len(compiled),
        "compiled_share": len(compiled) / len(outcomes),
        "spilled": sum(each.spill_bytes > 0 for each in compiled),
        "emulated": len(emulated),
        "complaints": len(complaints),
        "median_compile_s": statistics.median([each.compile_s for each in compiled] or [0.0]),
        "spills_by_value": spills_by_value(compiled),
        "failures": [
            {
                "number": each.task.number,
                "stage": each.stage,
                "reason": each.reason,
                "command": each.command if each.values else "",
            }
            for each in failures
        ],
    }


def spills_by_value(compiled: list[Outcome]) -> dict[str, dict[str, list[int]]]:
    """gene -> value -> [kernels that spill, kernels]; genes without any spill are left out."""
    total: Counter[tuple[str, str]] = Counter()
    spilled: Counter[tuple[str, str]] = Counter()
    for each in compiled:
        for name, value in each.values:
            total[name, str(value)] += 1
            spilled[name, str(value)] += each.spill_bytes > 0
    if not any(spilled.values()):
        return {}
    table: dict[str, dict[str, list[int]]] = {}
    for name, value in sorted(total):
        table.setdefault(name, {})[value] = [spilled[name, value], total[name, value]]
    return table


def record(outcomes: list[Outcome], args: argparse.Namespace, *, took_s: float) -> dict[str, Any]:
    """What the file holds."""
    pairs = dict.fromkeys((each.task.family, each.task.gpu) for each in outcomes)
    return {
        "command": command(),
        "date": date.today().isoformat(),
        "nvrtc": nvrtc_version(),
        "seed": args.seed,
        "asked": args.count,
        "took_s": round(took_s, 1),
        "rows": [
            {
                "family": family,
                "version": load_family(family).version,
                "gpu": gpu,
                **summary([o for o in outcomes if (o.task.family, o.task.gpu) == (family, gpu)]),
            }
            for family, gpu in sorted(pairs)
        ],
    }


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=500, help="genomes for each family and GPU")
    parser.add_argument("--families", default="all", help="names with commas between them, or all")
    parser.add_argument("--gpus", default="l4,a100,h200")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--time-limit", type=float, default=3600.0, help="in seconds")
    parser.add_argument("--no-emulator", action="store_true", help="compile only")
    parser.add_argument("-o", "--output", type=Path, required=True)
    return parser.parse_args()


def main() -> int:
    """Sweep, write the file, print a line for each family and GPU and every failure."""
    args = arguments()
    families = known_families() if args.families == "all" else tuple(args.families.split(","))
    work = tasks(
        families, args.gpus.split(","), count=args.count, seed=args.seed, emulate=not args.no_emulator
    )
    started, outcomes = time.monotonic(), []
    for outcome in run(work, workers=args.workers, time_limit_s=args.time_limit):
        outcomes.append(outcome)
        if outcome.stage:
            where = f"{outcome.task.family} {outcome.task.gpu} {outcome.task.number}"
            print(f"{where}: {outcome.stage}: {outcome.reason}\n    {outcome.command}", flush=True)
    found = record(outcomes, args, took_s=time.monotonic() - started)
    args.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for row in found["rows"]:
        print(
            f"{row['family']} {row['gpu']}: {row['compiled']} of {row['genomes']} compiled, "
            f"{row['spilled']} spilled, {row['complaints']} of {row['emulated']} stopped by the emulator"
        )
    print(f"{len(outcomes)} of {len(work)} genomes in {found['took_s']} s")
    return int(any(outcome.stage for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
