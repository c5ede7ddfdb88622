"""What aa.py times: kernels of earlier searches, their slower copies and anchors; compares nothing.

Every kernel is loaded from a file of its own. A slower copy begins with arithmetic that is never stored.
"""

import hashlib
import shutil
import tempfile
import time
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evoflash.gpu import launcher
from evoflash.gpu.launcher import LoadedKernel
from evoflash.gpu.timing.benchmark import REPLAY_LIMIT_S, Bench, KernelContender
from evoflash.gpu.timing.protocols import TimingProtocol
from evoflash.kernels.family import load_family
from evoflash.kernels.nvrtc import compile_candidate, first_error
from evoflash.kernels.renderer import render
from evoflash.launch import LaunchConfig
from evoflash.problem import Problem, parse_problem
from evoflash.space import Genome, SearchSpace
from evoflash.specs import GpuSpec, load_gpu
from scripts import ROOT
from scripts.records import read_record

_RECORDS = ROOT / "scripts" / "searches" / "records"
_SIGNATURE_END = "float scale) {\n"
_UNROLLED = 64  # up to here the work is a straight line: 4 cycles an iteration


@dataclass(frozen=True, slots=True)
class Row:
    """A problem, how it is timed, and how many comparisons of each kind are made that way."""

    problem: str
    protocol: str
    first_guess: int  # iterations of extra work
    copies: int
    planted: int


ROWS = (
    Row("mission", "cold", 10, copies=200, planted=100),
    Row("s2k_d128", "cold-sustained", 400, copies=176, planted=88),
    Row("s2k_d128", "cold-boost", 400, copies=24, planted=12),
)


class Site:
    """The GPU of this machine, kernels loaded from copies of their own, and inputs kept between parts."""

    def __init__(self, gpu: str, *, seed: int, deadline: float) -> None:
        self.gpu, self.seed, self._deadline = load_gpu(gpu), seed, deadline
        self.rng = np.random.default_rng([seed, 0xAA])
        self._folder, self._loaded = Path(tempfile.mkdtemp(prefix="evoflash-aa-")), 0
        self._bench: tuple[str, Bench] | None = None

    @property
    def left_s(self) -> float:
        return self._deadline - time.monotonic()

    def bench(self, problem: str) -> Bench:
        if self._bench is None or self._bench[0] != problem:
            self._bench = None  # its memory first
            workload = parse_problem(problem).workloads[0]
            self._bench = problem, Bench(workload, spec=self.gpu, seed=self.seed)
        return self._bench[1]

    def forget(self) -> None:
        """Free the inputs."""
        self._bench = None

    def protocol(self, row: Row) -> TimingProtocol:
        return next(
            protocol for protocol in self.bench(row.problem).protocols if protocol.name == row.protocol
        )

    def load(self, problem: str, genome: Genome, *, name: str, extra: int = 0) -> KernelContender:
        """A kernel from a file of its own: CuPy would take the module of a path that it knows."""
        path, launches = built(problem, genome, self.gpu, extra)
        self._loaded += 1
        copy = self._folder / f"{self._loaded}.cubin"
        shutil.copyfile(path, copy)
        return KernelContender(name, LoadedKernel(str(copy), launches))


def winner(problem: str, gpu: GpuSpec) -> Genome:
    """The genome that a recorded search of 200 evaluations found."""
    found = read_record(_RECORDS / f"search-h200-{problem}.json")["best"]["genome"]
    return _space(found["family"], problem, gpu).genome(found["values"])


def anchor(problem: str, gpu: GpuSpec) -> Genome:
    """Another kernel of the family: the first of its seeds."""
    best = winner(problem, gpu)
    family, space = load_family(best.family), _space(best.family, problem, gpu)
    return next(seed for seed in family.seeds_for(parse_problem(problem), space, gpu) if seed != best)


def _space(family: str, problem: str, gpu: GpuSpec) -> SearchSpace:
    return load_family(family).space(parse_problem(problem).compile_keys(gpu.arch), gpu)


@cache
def built(problem: str, genome: Genome, gpu: GpuSpec, extra: int) -> tuple[str, tuple[LaunchConfig, ...]]:
    """The cubin's path and the launches; `extra` iterations of a chain of additions delay every thread."""
    what: Problem = parse_problem(problem)
    (key,) = what.compile_keys(gpu.arch)
    candidate = render(genome, key, gpu)
    if extra:
        source = slowed(candidate.source, extra)
        candidate = replace(candidate, source=source, source_sha=hashlib.sha256(source.encode()).hexdigest())
    build = compile_candidate(candidate)
    if not build.ok:
        raise SystemExit(f"{genome.id} does not compile: {first_error(build.log)}")
    return build.cubin_path, load_family(genome.family).launches(genome, what.workloads[0], gpu)


def slowed(source: str, extra: int) -> str:
    """The kernel with work at its start whose result could be stored, though it never is."""
    if source.count(_SIGNATURE_END) != 1:
        raise SystemExit("the kernel's signature is not where this script looks for it")
    work = (
        "  float delay = scale;\n"
        f"#pragma unroll {min(extra, _UNROLLED)}\n"
        f"  for (int i = 0; i < {extra}; ++i) delay = delay * scale + scale;\n"
        "  if (delay < 0.0f) LSE[0] = delay;  // scale is positive\n"
    )
    return source.replace(_SIGNATURE_END, _SIGNATURE_END + work)


def output(contender: KernelContender, bench: Bench) -> NDArray[np.uint16]:
    """What the kernel writes for the first input set, as 16-bit patterns."""
    arena = bench.arenas[0]
    replay = contender.graph(bench, [0])
    arena.poison(bench.stream)
    replay()
    launcher.wait(bench.stream, limit_s=REPLAY_LIMIT_S)
    return arena.output().tensors["O"]
