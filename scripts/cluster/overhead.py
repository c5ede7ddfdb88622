"""What Dask costs: the same by one worker of a private cluster and without Dask, in turns. No GPU.

Calls of two kinds: one that does nothing, which shows the cost of a call, and a genome prepared as a search
without a GPU does it (compiled before, so that only the emulator's work is timed: the worst case for Dask).
And whole searches, whose GPU is a process that sleeps as long as an H200 took (whole_search.py).

    python -m scripts.cluster.overhead --calls 200 --genomes 24 --searches 8 \\
        -o scripts/cluster/records/overhead.json
"""

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.evaluators.cluster.connection import connect
from evoflash.evaluators.cluster.loopback import private_cluster
from evoflash.evaluators.cluster.pools import ClusterCores
from evoflash.evaluators.machines import Processes
from evoflash.evaluators.prepare import prepare
from evoflash.gpu.timing.intervals import interval
from evoflash.isolation import IsolatedPool
from evoflash.kernels.family import load_family
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu
from scripts.cluster.efficiency import STAGES, gpu_costs
from scripts.cluster.stand_ins import jobs
from scripts.cluster.whole_search import Measured, searched
from scripts.command_line import command

_LIMIT_S = 600.0
_AHEAD, _BUDGET = 32, 160  # proposals in flight; candidates of a search, the first 32 of which do not count
GPU, PROBLEM, FAMILY = load_gpu("l4"), parse_problem("mission"), "flash_direct"
Call = tuple[Callable[..., Any], tuple[Any, ...]]


def seconds(processes: Processes, call: Call) -> float:
    """Of one call, from its submission to its answer."""
    function, arguments = call
    began_s = time.perf_counter()
    processes.submit(function, *arguments, timeout_s=_LIMIT_S).result()
    return time.perf_counter() - began_s


def in_turns(ours: Processes, theirs: Processes, calls: Sequence[Call]) -> list[tuple[float, float]]:
    """Each call by both, the one or the other first in turns."""
    found = []
    for at, call in enumerate(calls):
        pair = [seconds(each, call) for each in ((ours, theirs) if at % 2 else (theirs, ours))]
        found.append((pair[0], pair[1]) if at % 2 else (pair[1], pair[0]))
    return found


def summary(pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """Medians in ms, the median of the differences, and the ratio with its interval."""
    ratio = interval([math.log(ours / theirs) for ours, theirs in pairs])
    return {
        "n": len(pairs),
        "worker_ms": 1e3 * statistics.median(ours for ours, _ in pairs),
        "process_ms": 1e3 * statistics.median(theirs for _, theirs in pairs),
        "more_ms": 1e3 * statistics.median(ours - theirs for ours, theirs in pairs),
        "ratio": ratio.ratio,
        "ratio_low": ratio.low,
        "ratio_high": ratio.high,
    }


def genomes(count: int) -> list[Call]:
    """Calls that prepare random genomes."""
    space = load_family(FAMILY).space(PROBLEM.compile_keys(GPU.arch), GPU)
    rng = np.random.default_rng(0)
    return [(prepare, (space.sample(rng), PROBLEM, GPU, True, 0)) for _ in range(count)]


def measured(calls: int, count: int) -> dict[str, Any]:
    """Both kinds of call; the first time that anything is called does not count."""
    nothing: list[Call] = [(divmod, (7, 2))] * calls
    kinds = {"nothing": nothing, "genome": genomes(count)}
    with private_cluster(cores=1) as address, connect(address) as connection, IsolatedPool(1) as process:
        worker = ClusterCores(connection).processes()
        for call in (*kinds["nothing"][:3], *kinds["genome"]):
            seconds(process, call)
        seconds(worker, kinds["genome"][0])
        found = {name: summary(in_turns(worker, process, each)) for name, each in kinds.items()}
        worker.close()
    return found


def pairs_of_searches(count: int) -> list[tuple[Measured, Measured]]:
    """With one loopback worker and without Dask, the one or the other first in turns."""
    look_s, proof_s, proven = gpu_costs(STAGES)
    gpu = jobs(look_s=look_s, proof_s=proof_s, proven=proven)
    search = partial(searched, jobs=gpu, strategy="uniform", budget=_BUDGET, opening=_AHEAD, ahead=_AHEAD)
    search(0)  # compiles
    found = []
    for at in range(count):
        first, second = (search(workers) for workers in ((1, 0) if at % 2 else (0, 1)))
        found.append((first, second) if at % 2 else (second, first))
        print(found[-1], file=sys.stderr, flush=True)
    return found


def summary_of_searches(pairs: Sequence[tuple[Measured, Measured]]) -> dict[str, Any]:
    """Wall time of a candidate as summary() has it, and CPU time of the search process in ms."""
    wall = summary([(ours.wall_s, theirs.wall_s) for ours, theirs in pairs])
    cpu = summary([(ours.cpu_s, theirs.cpu_s) for ours, theirs in pairs])
    each = [{"with": asdict(ours), "without": asdict(theirs)} for ours, theirs in pairs]
    return {"wall": wall, "cpu_of_the_search_process": cpu, "searches": each}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--genomes", type=int, default=24)
    parser.add_argument("--searches", type=int, default=8, help="pairs of them")
    parser.add_argument("-o", type=Path, required=True)
    args = parser.parse_args()
    found = {
        "made_by": command(),
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg(),
        **measured(args.calls, args.genomes),
        "search": summary_of_searches(pairs_of_searches(args.searches)),
    }
    args.o.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
