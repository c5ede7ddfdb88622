"""Kernels of the shipped families, drawn, built and run: on the GPU, or in the emulator where there is none.

For scripts that ask what real kernels' outputs are. Judges and times nothing.
"""

import re
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from evoflash.emulator.call import EmulatorRun, run_call
from evoflash.emulator.preflight import preflight
from evoflash.errors import DeviceError
from evoflash.evaluation import Candidate
from evoflash.gpu import arena as memory
from evoflash.gpu import launcher
from evoflash.gpu.launcher import LoadedKernel
from evoflash.gpu.process import cache as kept
from evoflash.kernels import gxx
from evoflash.kernels.family import load_family
from evoflash.kernels.nvrtc import compile_candidate
from evoflash.kernels.renderer import render
from evoflash.launch import LaunchConfig
from evoflash.operations.attention.inputs import AttentionInputs, draw
from evoflash.operations.attention.reference import expect
from evoflash.operations.attention.workload import AttentionKey, AttentionWorkload
from evoflash.operations.expectations import every_row
from evoflash.space import Genome
from evoflash.specs import GpuSpec, load_gpu
from evoflash.validation.validator import Part, part_of
from evoflash.workload import ExpectedOutputs, Output, Sample
from scripts.families.draws import draw_quickly, space_of

LIMIT_S = 20.0
_FEW_ROWS = 48
_WAITS = re.compile(r"\bef::(mbar_|bar_|cluster_|reg_)")  # could wait for ever


@dataclass(frozen=True, slots=True)
class Subject:
    """A genome under one compile key, and what it was built into."""

    genome: Genome
    key: AttentionKey
    path: str  # a cubin, or a library for the emulator

    @property
    def family(self) -> str:
        return self.genome.family


class Machine(Protocol):
    """Where kernels run."""

    name: str
    gpu: GpuSpec

    def compiled(self, candidate: Candidate) -> str:
        """The path of what the candidate was built into; empty where it was refused."""
        ...

    def run(
        self, subject: Subject, workload: AttentionWorkload, trial: AttentionInputs, sample: Sample
    ) -> Output | Part:
        """One attention call on poisoned outputs. The launcher's and memory.py's errors."""
        ...


class Silicon:
    """The GPU that is present."""

    def __init__(self) -> None:
        present = launcher.present_gpu()
        self.name, self.gpu = present.device_name, launcher.spec_of(present)

    def compiled(self, candidate: Candidate) -> str:
        """See Machine."""
        build = compile_candidate(candidate)
        return build.cubin_path if build.ok else ""

    def run(
        self, subject: Subject, workload: AttentionWorkload, trial: AttentionInputs, sample: Sample
    ) -> Output | Part:
        """See Machine."""
        arena = kept.arena(workload)
        kernel = _loaded(subject.path, launches_of(subject.genome, workload, self.gpu))
        memory.launch(kernel, arena, trial, stream=_stream(), limit_s=LIMIT_S)
        return arena.part(sample)


@cache
def _stream() -> Any:
    return launcher.new_stream()


@cache
def _loaded(path: str, launches: tuple[LaunchConfig, ...]) -> LoadedKernel:
    return LoadedKernel(path, launches)


class Emulated:
    """The CPU emulator in a GPU's place: the numbers of our reading of PTX, on small shapes."""

    def __init__(self, gpu: GpuSpec) -> None:
        self.name, self.gpu = f"the emulator, as {gpu.name}", gpu

    def compiled(self, candidate: Candidate) -> str:
        """See Machine."""
        return str(gxx.build(candidate.source, name=candidate.genome.family))

    def run(
        self, subject: Subject, workload: AttentionWorkload, trial: AttentionInputs, sample: Sample
    ) -> Output | Part:
        """See Machine. RuntimeError when the emulator has something to report."""
        launches = launches_of(subject.genome, workload, self.gpu)
        run = EmulatorRun("eager", "fifo", 1, LIMIT_S)
        emulations, output = run_call(Path(subject.path), launches, workload, trial, run)
        for emulation in emulations:
            for report in emulation.reports:
                raise RuntimeError(f"{report.kind} at line {report.line}: {report.message}")
        return part_of(output, sample, workload=workload)


def machine_of(emulated_as: str | None) -> Machine:
    """The GPU; the emulator in the place of one when its name is given, or none is present."""
    if emulated_as:
        return Emulated(load_gpu(emulated_as))
    try:
        return Silicon()
    except DeviceError:
        return Emulated(load_gpu("h200"))


def launches_of(genome: Genome, workload: AttentionWorkload, gpu: GpuSpec) -> tuple[LaunchConfig, ...]:
    """What to launch for the genome on a workload."""
    return load_family(genome.family).launches(genome, workload, gpu)


def genomes(family: str, key: AttentionKey, gpu: GpuSpec, *, count: int, seeds: int) -> tuple[Genome, ...]:
    """Up to `seeds` of the family's seeds that are valid under the key, and up to `count` drawn ones."""
    known, space = load_family(family), space_of(load_family(family), key, gpu)
    given = (space.genome(seed.values) for seed in known.seeds)
    first = [genome for genome in dict.fromkeys(given) if space.is_valid(genome)][:seeds]
    rng = np.random.default_rng([zlib.crc32(f"{family} {key}".encode())])
    drawn = (draw_quickly(known, key, gpu, rng) for _ in range(count))
    return tuple(dict.fromkeys([*first, *(genome for genome in drawn if genome is not None)]))


def build(machine: Machine, genome: Genome, key: AttentionKey) -> Subject | str:
    """The subject, or why there is none: the compiler or, before it waits on a GPU, pre-flight refused it."""
    candidate = render(genome, key, machine.gpu)
    path = machine.compiled(candidate)
    if not path:
        return f"{genome.family} {genome.id} under {key}: does not compile"
    if _WAITS.search(candidate.source) and shutil.which("g++"):
        found = preflight(candidate, load_family(genome.family), machine.gpu, seed=1)
        if found.complaint:
            return f"{genome.family} {genome.id} under {key}: {found.complaint}"
    return Subject(genome, key, path)


def built(
    pool: ProcessPoolExecutor, machine: Machine, wanted: Sequence[tuple[Genome, AttentionKey]]
) -> list[Subject]:
    """The subjects of all genomes that compiler and pre-flight take, in the order given; a word on others."""
    found = list(pool.map(partial(_build, machine), wanted))
    refused = [each for each in found if isinstance(each, str)]
    if refused:
        print(f"{len(refused)} of {len(found)} not built:", *refused[:5], sep="\n", file=sys.stderr)
    return [each for each in found if isinstance(each, Subject)]


def _build(machine: Machine, wanted: tuple[Genome, AttentionKey]) -> Subject | str:
    return build(machine, *wanted)


Reference = tuple[AttentionInputs, ExpectedOutputs]


def reference(workload: AttentionWorkload, name: str, seed: int, *, most_scores: int = 1 << 22) -> Reference:
    """A trial and what is right: at every row, or, where that takes more scores, at some of them."""
    trial = draw(name, workload, seed=seed)
    where = few_rows(workload, np.random.default_rng(seed), most_scores=most_scores)
    return trial, expect(workload, trial, where=where)


def few_rows(workload: AttentionWorkload, rng: np.random.Generator, *, most_scores: int) -> Sample:
    """Every row; where that takes more scores, the first and last head, first and last rows, and others."""
    everything = every_row(workload)
    if len(everything.groups) * workload.seq_q * workload.seq_kv <= most_scores:
        return everything
    heads = np.unique(everything.groups[[0, -1]])
    edges = np.array([0, 1, 15, 16, 63, 64, 127, 128, workload.seq_q - 2, workload.seq_q - 1])
    others = rng.integers(0, workload.seq_q, _FEW_ROWS)
    rows = np.unique(np.concatenate([edges, others]).clip(0, workload.seq_q - 1))
    return Sample(heads, rows)


def ahead(
    pool: ProcessPoolExecutor, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]], *, many: int
) -> Iterator[Any]:
    """The results of the calls in their order, at most `many` of them under way or waiting to be taken."""
    waiting: list[Future[Any]] = []
    for at, call in enumerate(calls):
        waiting.append(pool.submit(function, *call))
        if at >= many:
            yield waiting.pop(0).result()
    while waiting:
        yield waiting.pop(0).result()
