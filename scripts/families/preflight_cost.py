"""What the pre-flight costs, in CPU seconds: random genomes under random compile keys, family by family.

The 48 keys are all of head_dim 64 and 128, fp16 and bf16, full and causal, and 1 to 32 query heads for each
key/value head. Rendering and g++ are not counted, references are. A complaint about a genome is a false
alarm, or a fault of its template: it is printed, and the exit code is 1. Times no GPU, and needs none.

    python -m scripts.families.preflight_cost -o scripts/families/records/preflight-cost.json

The pre-flight of another checkout is measured with PYTHONPATH set to that.
"""

import argparse
import itertools
import json
import os
import statistics
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.attention.workload import DTYPES, CompileKey
from evoflash.compilers import gxx
from evoflash.emulator.preflight import preflight
from evoflash.families.family import Family, known_families, load_family
from evoflash.families.renderer import render
from evoflash.gpu import GpuSpec, load_gpu
from evoflash.space import Genome
from scripts.command_line import command
from scripts.families.draws import USUAL_HEAD_DIMS, draw_quickly

RATIOS = (1, 2, 4, 8, 16, 32)
GPUS = ("h200", "h200", "l4", "a100")  # each as often as it is named


@dataclass(frozen=True, slots=True)
class Measured:
    """One genome's pre-flight."""

    genome: Genome
    key: CompileKey
    gpu: str
    cpu_s: float
    complaint: str


def drawn(family: Family, seed: int) -> Iterator[tuple[Genome, CompileKey, GpuSpec]]:
    """Genomes without end, each under a key and for a GPU of its own."""
    rng = np.random.default_rng([seed, zlib.crc32(family.name.encode())])
    keys = list(itertools.product(USUAL_HEAD_DIMS, DTYPES, (False, True), RATIOS))
    gpus = [gpu for gpu in map(load_gpu, GPUS) if family.supports(gpu)]
    while True:
        gpu = gpus[int(rng.integers(len(gpus)))]
        head_dim, dtype, causal, ratio = keys[int(rng.integers(len(keys)))]
        key = CompileKey(head_dim, dtype, causal, ratio, gpu.arch)
        genome = draw_quickly(family, key, gpu, rng)
        if genome is not None:
            yield genome, key, gpu


def measure(family: Family, genome: Genome, key: CompileKey, gpu: GpuSpec, *, seed: int) -> Measured:
    """The CPU time of one pre-flight after g++."""
    candidate = render(genome, key, gpu)
    gxx.build(candidate.source, name=family.name)
    begin = time.process_time()
    found = preflight(candidate, family, gpu, seed=seed)
    return Measured(genome, key, gpu.name, time.process_time() - begin, found.complaint)


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
        "dearest": {"key": str(dearest.key), "gpu": dearest.gpu, "values": dearest.genome.as_dict()},
        "complaints": [
            {"complaint": row.complaint, "key": str(row.key), "gpu": row.gpu, "values": row.genome.as_dict()}
            for row in rows
            if row.complaint
        ],
    }


def main() -> None:
    """All families, a line each; exit 1 if there was a complaint."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--genomes", type=int, default=25, help="of each family")
    parser.add_argument("--families", default="all", help="names with commas between them, or all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--out", type=Path)
    options = parser.parse_args()
    gxx.runtime()
    found: dict[str, dict[str, Any]] = {}
    for name in known_families() if options.families == "all" else options.families.split(","):
        family = load_family(name)
        chosen = itertools.islice(drawn(family, options.seed), options.genomes)
        rows = [measure(family, *each, seed=options.seed + at) for at, each in enumerate(chosen)]
        found[name] = summary(rows)
        print(name, {k: v for k, v in found[name].items() if k != "dearest"}, flush=True)
    document = {
        "what": "CPU seconds of a pre-flight, references included, g++ not",
        "command": command(),
        "date": str(date.today()),
        "machine": f"{os.cpu_count()} cores, {gxx.compiler_version()}",
        "load_1min": round(os.getloadavg()[0], 1),
        "seed": options.seed,
        "families": found,
    }
    if options.out:
        options.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    sys.exit(any(row["complaints"] for row in found.values()))


if __name__ == "__main__":
    main()
