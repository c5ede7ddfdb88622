"""Runs correct kernels in the emulator over a grid of everything that may vary: none may draw a report.

The grid, all combinations: every family; its first seeds and some uniform valid genomes; fp16 and bf16;
head dims; full and causal; lengths with tails, Sq != Skv, one row, GQA; three delivery policies; two
schedules; another seed each time.
Each run's numbers are judged by the reference as well. Needs no GPU and times nothing.

    python -m scripts.families.clean_runs -o scripts/families/records/clean-runs.json
"""

import argparse
import itertools
import json
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import get_args

import numpy as np

from evoflash.emulator.preflight import emulate
from evoflash.kernels import gxx
from evoflash.kernels.family import known_families, load_family
from evoflash.kernels.renderer import render
from evoflash.operation import Delivery, Schedule, Workload
from evoflash.operations.attention.workload import parse_workload
from evoflash.problem import parse_problem
from evoflash.space import Genome
from evoflash.specs import GpuSpec, load_gpu
from scripts.command_line import command
from scripts.families.draws import draw_quickly

DTYPES = ("fp16", "bf16")
HEAD_DIMS = (64, 128)
MASKS = ("full", "causal")
# Heads, KV heads, Sq, Skv: tails on both sides, one row of queries, more queries than keys, grouped heads.
LENGTHS = ((1, 1, 33, 130), (2, 1, 70, 33), (1, 1, 1, 200))
DELIVERIES, SCHEDULES = get_args(Delivery), get_args(Schedule)


@dataclass(frozen=True, slots=True)
class Kernel:
    """One genome compiled for one key, and the workloads to run it on."""

    family: str
    genome: Genome
    workloads: tuple[Workload, ...]


def kernels(gpu: GpuSpec, *, seeds: int, draws: int, seed: int) -> Iterator[Kernel]:
    """The grid's kernels: for each compile key the family's first seeds and uniform draws."""
    for name, dtype, head_dim, mask in itertools.product(known_families(), DTYPES, HEAD_DIMS, MASKS):
        family = load_family(name)
        if not family.supports(gpu):
            continue
        for grouped in (False, True):
            chosen = [lengths for lengths in LENGTHS if (lengths[0] > lengths[1]) == grouped]
            words = [
                f"b=1,h={h},hkv={hkv},sq={sq},skv={skv},d={head_dim},dtype={dtype}"
                + (",causal" if mask == "causal" else "")
                for h, hkv, sq, skv in chosen
            ]
            problem = parse_problem(words[0])
            space = family.space(problem.compile_keys(gpu.arch), gpu)
            rng = np.random.default_rng([seed, zlib.crc32(f"{name} {words[0]}".encode())])
            genomes = list(family.seeds_for(problem, space, gpu)[:seeds])
            key = parse_workload(words[0]).compile_key(gpu.arch)
            drawn = [draw_quickly(family, key, gpu, rng) for _ in range(draws)]
            genomes += [genome for genome in drawn if genome is not None]
            workloads = tuple(parse_problem(word).workloads[0] for word in words)
            for genome in dict.fromkeys(genomes):
                yield Kernel(name, genome, workloads)


def main() -> None:
    """Every kernel of the grid on every workload under every policy; exit 1 if any complained."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--seeds", type=int, default=2, help="seeds of each family")
    parser.add_argument("--draws", type=int, default=1, help="uniform genomes of each family and compile key")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--out", type=Path)
    options = parser.parse_args()
    gpu, begin = load_gpu(options.gpu), time.process_time()
    runs: Counter[str] = Counter()
    complaints: list[str] = []
    for kernel in kernels(gpu, seeds=options.seeds, draws=options.draws, seed=options.seed):
        family = load_family(kernel.family)
        key = kernel.workloads[0].compile_key(gpu.arch)
        source = render(kernel.genome, key, gpu).source
        registers = family.registers(family.names(kernel.genome.as_dict(), key, gpu))
        library = gxx.build(source, name=kernel.family)
        for workload, delivery, schedule in itertools.product(kernel.workloads, DELIVERIES, SCHEDULES):
            launches = family.launches(kernel.genome, workload, gpu)
            emulations, verdict = emulate(
                library,
                launches,
                workload,
                "normal",
                delivery=delivery,
                schedule=schedule,
                seed=options.seed + sum(runs.values()),
                registers=registers,
            )
            runs[kernel.family] += 1
            found = [f"{r.kind} line {r.line}: {r.message}" for e in emulations for r in e.reports]
            found += [] if verdict.passed else [verdict.reason]
            complaints += [f"{kernel.genome.id} {workload} {delivery} {schedule}: {what}" for what in found]
    document = {
        "what": "emulated runs of correct kernels, and what the emulator complained of",
        "command": command(),
        "date": str(date.today()),
        "grid": {
            "families": known_families(),
            "genomes": f"for each compile key {options.seeds} seeds and {options.draws} draws",
            "dtypes": DTYPES,
            "head_dims": HEAD_DIMS,
            "masks": MASKS,
            "lengths": [f"h={h},hkv={hkv},sq={sq},skv={skv}" for h, hkv, sq, skv in LENGTHS],
            "deliveries": DELIVERIES,
            "schedules": SCHEDULES,
            "seeds": "another for each run",
        },
        "runs": dict(runs),
        "total": sum(runs.values()),
        "cpu_s": round(time.process_time() - begin, 1),
        "complaints": complaints,
    }
    print(json.dumps(document, indent=1))
    if options.out:
        options.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
