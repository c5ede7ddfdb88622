"""Times kernels of the linear layer, each compiled for several numbers of rows, on the same rows of x.

    python -m scripts.portfolio.row_classes --seconds 120 -o classes.json

It says on the GPU here what another list of classes of rows would be worth; it changes no list. The kernels
are some of linear_wgmma's in the record of 1 to 64 rows; those of a number of rows take turns. An output is
judged where its kernel is timed for the first time, mostly with the fewest rows that it may have.
"""

import argparse
import itertools
import json
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.evaluation import Build
from evoflash.gpu import launcher
from evoflash.gpu.arena import MemoryFaultError
from evoflash.gpu.launcher import LoadedKernel
from evoflash.gpu.process import cache
from evoflash.gpu.process.judged_replays import judge_replay
from evoflash.gpu.timing.benchmark import KernelContender, time_interleaved
from evoflash.gpu.timing.protocols import Pace, StoppingRule, TimingProtocol
from evoflash.isolation import Ending, IsolatedPool
from evoflash.kernels.family import load_family
from evoflash.kernels.nvrtc import compile_candidate
from evoflash.kernels.renderer import render
from evoflash.operations.linear.workload import LinearKey, LinearWorkload
from evoflash.problem import parse_problem
from evoflash.space import Genome
from evoflash.specs import GpuSpec, load_gpu
from scripts import ROOT
from scripts.records import command, read_record

RECORD = ROOT / "scripts/portfolio/records/linear-rows-h100-2026-11-27.json"
# Beginnings of ids: for each layer the best ones of two groups of warps, with shares and with turns of k, and
# one of a single group, whose times lie furthest apart by the rows.
KERNELS = ("84c983", "8b993c", "434e21", "3e0f18", "9ff509", "5b1923", "41781a", "cb24e0")
# What tells most first: the ends of today's classes, then what lies between.
ROWS = (33, 48, 40, 36, 64, 17, 24, 32, 49, 56, 20, 41, 31, 38, 44, 52, 25)
_COLD = TimingProtocol("cold", True, Pace.STEADY)
_IN_TURNS = StoppingRule(min_samples=11, max_samples=11, rel_error=1.0, max_s=float("inf"))
_SEED = 32
_LIMIT_S = 60.0  # of a compilation, of a number of rows

_ANY = "linear:8b_o,m=1..64,dtype=fp8b128"

Compiled = tuple[Genome, int]  # a kernel, and the rows that it is compiled for at most
Times = dict[str, float | str]


def rows_at_most(m: int) -> tuple[int, ...]:
    """What a kernel may be compiled for that is to take m rows: eights, up to a power of two."""
    return tuple(range(-(-m // 8) * 8, max(8, 1 << (m - 1).bit_length()) + 1, 8))


def shape_of(layer: str, m: int) -> LinearWorkload:
    """A layer of the record with m rows."""
    (workload,) = parse_problem(layer.replace("m=1..64", f"m={m}")).workloads
    assert isinstance(workload, LinearWorkload)
    return workload


def key_of(layer: str, rows: int, arch: str) -> LinearKey:
    """The compile key of that layer, were so many rows a class."""
    return replace(shape_of(layer, rows).compile_key(arch), rows=rows)


def genomes_of(kernels: Sequence[Mapping[str, Any]]) -> list[Genome]:
    """Those of a layer's kernels in the record that are timed, as kernels of today's family."""
    space = load_family("linear_wgmma").space((key_of(_ANY, 64, "sm_90a"),), load_gpu("h100"))
    return [space.genome(each["values"]) for each in kernels if each["id"].startswith(KERNELS)]


def build_of(compiled: Compiled, key: LinearKey, spec: GpuSpec) -> Build:
    return compile_candidate(render(compiled[0], key, spec))


def times_us(
    workload: LinearWorkload, builds: Mapping[Compiled, Build], unseen: Collection[Compiled], spec: GpuSpec
) -> Times | str:
    """In a process with the GPU: of each kernel and its rows at most the median, or what is wrong with its
    output; or why the process is of no use any more.
    """
    bench = cache.bench(workload, spec, _SEED)
    contenders = {}
    for (genome, rows), build in builds.items():
        family = load_family(genome.family)
        launches = family.launches_of(family.names(genome.as_dict(), build.compile_key, spec), workload)
        kernel = LoadedKernel(build.cubin_path, launches)
        contenders[genome, rows] = KernelContender(f"{genome.id[:6]}<={rows}", kernel)
    trouble: tuple[type[BaseException], ...] = (
        launcher.KernelHungError,
        MemoryFaultError,
        *launcher.cuda_errors(),
    )
    said: Times = {}
    rng = np.random.default_rng(_SEED)
    try:
        _, timings = time_interleaved(
            list(contenders.values()), bench, _COLD, rule=_IN_TURNS, rng=rng, prefix=""
        )
        for compiled, contender in contenders.items():
            said[contender.name] = round(timings[contender.name].median_us, 3)
            if compiled in unseen:
                verdict = judge_replay(contender, bench, seed=_SEED)
                said[contender.name] = said[contender.name] if verdict.passed else verdict.reason
    except trouble as error:
        return str(error)
    return said


def time_layers(spec: GpuSpec, jobs: int, until_s: float, output: Path) -> None:
    """All is compiled at once; the file grows by a layer's number of rows."""
    layers = read_record(RECORD)["layers"]
    genomes = {layer: genomes_of(table["kernels"]) for layer, table in layers.items()}
    tables: dict[str, dict[int, Any]] = {layer: {} for layer in layers}
    with IsolatedPool(jobs) as compilers, IsolatedPool(1) as gpu:
        under_way: dict[tuple[str, Compiled], Future[Ending[Build]]] = {}
        for m, layer in itertools.product(ROWS, layers):
            for compiled in itertools.product(genomes[layer], rows_at_most(m)):
                if (layer, compiled) not in under_way:
                    key = key_of(layer, compiled[1], spec.arch)
                    under_way[layer, compiled] = compilers.submit(
                        build_of, compiled, key, spec, timeout_s=_LIMIT_S
                    )
        judged = set[tuple[str, Compiled]]()
        for m, layer in itertools.product(ROWS, layers):
            if time.monotonic() > until_s:
                return
            wanted = list(itertools.product(genomes[layer], rows_at_most(m)))
            ended = {each: under_way[layer, each].result().value for each in wanted}
            builds = {each: build for each, build in ended.items() if build is not None and build.ok}
            unseen = [each for each in builds if (layer, each) not in judged]
            judged |= {(layer, each) for each in unseen}
            ending = gpu.submit(
                times_us, shape_of(layer, m), builds, unseen, spec, timeout_s=_LIMIT_S
            ).result()
            tables[layer][m] = ending.reason if ending.value is None else ending.value
            print(layer, m, json.dumps(tables[layer][m]), flush=True)
            output.write_text(json.dumps({"command": command(), "gpu": spec.name, "us": tables}))
            if isinstance(tables[layer][m], str):
                return


def main() -> None:
    """Parse; time."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120.0, help="no number of rows is begun later")
    parser.add_argument("--jobs", type=int, default=14, help="compilers")
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    until_s = time.monotonic() + given.seconds
    time_layers(launcher.present_spec(None), given.jobs, until_s, given.output)


if __name__ == "__main__":
    main()
