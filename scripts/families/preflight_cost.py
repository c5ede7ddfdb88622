"""What the pre-flight costs, in CPU seconds, and its false alarms: random genomes under random compile keys.

Attention's 48 keys are all of head_dim 64 and 128, fp16 and bf16, full and causal, and 1 to 32 query heads
for each key/value head; other operations' are drawn. Rendering and g++ are not counted, references are. A
complaint about a genome is a false alarm, or a fault of its template: it is printed, and the exit code is 1.
Times no GPU, and needs none. The same seed draws the same genomes, whatever the number of processes.

    python -m scripts.families.preflight_cost --genomes 167 -o preflight-cost.json

The pre-flight of another checkout is measured with PYTHONPATH set to that.
"""

import argparse
import itertools
import os
import statistics
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.emulator.preflight import preflight
from evoflash.errors import EvoflashError
from evoflash.isolation import Ending, IsolatedPool
from evoflash.kernels import gxx
from evoflash.kernels.family import Family, families_for, load_family
from evoflash.kernels.renderer import render
from evoflash.operations.attention.workload import DTYPES, AttentionKey
from evoflash.specs import load_gpu
from scripts.families.draws import OTHER_KEYS, USUAL_HEAD_DIMS, Draw, draw_quickly
from scripts.families.in_flight import in_flight
from scripts.records import command, write_record

RATIOS = (1, 2, 4, 8, 16, 32)
GPUS = ("h200", "h200", "l4", "a100")  # each as often as it is named
_LIMIT_S = 300.0  # of one genome


@dataclass(frozen=True, slots=True)
class Measured:
    """One genome's pre-flight."""

    task: Draw
    cpu_s: float
    complaint: str


def drawn(family: Family, seed: int) -> Iterator[Draw]:
    """Genomes without end, each under a key and for a GPU of its own."""
    rng = np.random.default_rng([seed, zlib.crc32(family.name.encode())])
    keys = list(itertools.product(USUAL_HEAD_DIMS, DTYPES, (False, True), RATIOS))
    gpus = [gpu for gpu in map(load_gpu, GPUS) if family.supports(gpu)]
    while True:
        gpu = gpus[int(rng.integers(len(gpus)))]
        if draw := OTHER_KEYS.get(family.op):
            key = draw(gpu, rng)
        else:
            head_dim, dtype, causal, ratio = keys[int(rng.integers(len(keys)))]
            key = AttentionKey(head_dim, dtype, causal, ratio, gpu.arch)
        genome = draw_quickly(family, key, gpu, rng)
        if genome is not None:
            yield Draw(family.name, genome, key, gpu.name)


def tasks(names: list[str], *, genomes: int, seed: int) -> Iterator[Draw]:
    """So many genomes of each family, the families in turns: what a time limit cuts is missing alike."""
    streams = [drawn(load_family(name), seed) for name in names]
    for number in range(genomes):
        for stream in streams:
            yield replace(next(stream), seed=seed + number)


def measure(task: Draw) -> Measured:
    """The CPU time of one pre-flight after g++; in a worker process, whose NumPy has one thread."""
    family, gpu = load_family(task.family), load_gpu(task.gpu)
    try:
        candidate = render(task.genome, task.key, gpu)
        gxx.build(candidate.source, name=family.name)
        begin = time.process_time()
        found = preflight(candidate, family, gpu, seed=task.seed)
    except EvoflashError as error:  # a template that fails on a valid genome
        return Measured(task, 0.0, str(error))
    return Measured(task, time.process_time() - begin, found.complaint)


def run(work: Iterator[Draw], *, workers: int, time_limit_s: float) -> Iterator[Measured]:
    """The genomes as they come, until the work or the time is over."""
    gxx.runtime()
    with IsolatedPool(workers) as pool:
        endings = in_flight(
            pool, measure, work, many=2 * workers, limit_s=_LIMIT_S, time_limit_s=time_limit_s
        )
        yield from (_measured(task, ending) for task, ending in endings)


def _measured(task: Draw, ending: Ending[Measured]) -> Measured:
    return ending.value or Measured(task, 0.0, f"process: {ending.status}: {ending.reason}")


def summary(rows: list[Measured]) -> dict[str, Any]:
    """One family: quantiles, the dearest genome, and every complaint."""
    times = [row.cpu_s for row in rows]
    dearest = max(rows, key=lambda row: row.cpu_s)
    return {
        "genomes": len(rows),
        "median_s": round(statistics.median(times), 3),
        "p90_s": round(float(np.quantile(times, 0.9)), 3),
        "max_s": round(max(times), 3),
        "mean_s": round(statistics.mean(times), 3),
        "keys": len({str(row.task.key).rpartition(",")[0] for row in rows}),
        "dearest": dearest.task.as_dict(),
        "complaints": [
            {"complaint": row.complaint, "seed": row.task.seed, **row.task.as_dict()}
            for row in rows
            if row.complaint
        ],
    }


def record(rows: list[Measured], options: argparse.Namespace, *, took_s: float) -> dict[str, Any]:
    """What the file holds."""
    names = sorted({row.task.family for row in rows})
    return {
        "what": "CPU seconds of a pre-flight, references included, g++ not; its complaints are false alarms",
        "command": command(),
        "date": str(date.today()),
        "machine": f"{os.cpu_count()} cores, {gxx.compiler_version()}",
        "load_1min": round(os.getloadavg()[0], 1),
        "seed": options.seed,
        "genomes": len(rows),
        "took_s": round(took_s, 1),
        "families": {name: summary([row for row in rows if row.task.family == name]) for name in names},
    }


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--genomes", type=int, default=25, help="of each family")
    parser.add_argument("--families", default="all", help="names with commas between them, or all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--time-limit", type=float, default=7200.0, help="in seconds")
    parser.add_argument("-o", "--out", type=Path)
    return parser.parse_args()


def main() -> int:
    """A line for each family and each complaint; exit code 1 after a complaint, or when time was short."""
    options = arguments()
    every = [family.name for family in families_for(load_gpu("h200"))]
    names = every if options.families == "all" else options.families.split(",")
    begin_s, rows = time.monotonic(), []
    work = tasks(names, genomes=options.genomes, seed=options.seed)
    for row in run(work, workers=options.workers, time_limit_s=options.time_limit):
        rows.append(row)
        if row.complaint:
            print(f"{row.task.family}: {row.complaint}\n    {row.task.as_dict()}", flush=True)
        if len(rows) % 100 == 0:
            print(f"{len(rows)} genomes in {time.monotonic() - begin_s:.0f} s", flush=True)
    found = record(rows, options, took_s=time.monotonic() - begin_s)
    if options.out:
        write_record(options.out, found)
    for name, row in found["families"].items():
        print(name, {k: v for k, v in row.items() if k not in ("dearest", "complaints")})
    complaints = sum(bool(row.complaint) for row in rows)
    print(f"{len(rows)} genomes in {found['took_s']} s, {complaints} complaints")
    return int(complaints > 0 or len(rows) < options.genomes * len(names))


if __name__ == "__main__":
    sys.exit(main())
