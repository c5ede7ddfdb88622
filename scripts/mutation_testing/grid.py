"""Which kernels mutation testing looks at: a grid of genomes, and the mutants of their texts. Runs nothing.

The grid: genomes drawn from the seed under keys drawn from the seed (fp16 and bf16, full and causal, head_dim
64, 128 and others, plain and grouped heads), of which a greedy choice covers every pair of structural values
that the draws hold, at the least work, or as many as so many kernels can. Synchronisation is mutated in each
of them; a predicate, in one of those that have it, full and causal apart.
"""

import itertools
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from evoflash.evaluation import Candidate
from evoflash.kernels.family import Family, load_family
from evoflash.kernels.renderer import render
from evoflash.operations.attention.workload import AttentionKey, parse_workload
from evoflash.space import Genome
from evoflash.specs import GpuSpec, load_gpu
from scripts.families.draws import draw_key, draw_quickly
from scripts.mutation_testing.mutants import Mutant, mutants


@dataclass(frozen=True, slots=True)
class Core:
    """One genome of the grid."""

    family: str
    genome: Genome
    key: AttentionKey
    gpu: str

    def render(self) -> Candidate:
        return render(self.genome, self.key, load_gpu(self.gpu))

    def names(self) -> dict[str, Any]:
        """Every name that the template sees."""
        return load_family(self.family).names(self.genome.as_dict(), self.key, load_gpu(self.gpu))

    @property
    def command(self) -> str:
        """What renders the kernel that is mutated."""
        values = " ".join(f"--set {k}={str(v).lower()}" for k, v in self.genome.values)
        return f"evoflash export --family {self.family} {values} --problem {self.problem} --gpu {self.gpu}"

    @property
    def problem(self) -> str:
        """A workload of its compile key."""
        return str(self.key.workload(1, 1, 256, 256))

    @classmethod
    def read(cls, family: str, problem: str, values: dict[str, Any], gpu: str) -> "Core":
        """The core with that problem and those values."""
        spec = load_gpu(gpu)
        key = parse_workload(problem).compile_key(spec.arch)
        return cls(family, load_family(family).space((key,), spec).genome(values), key, gpu)


@dataclass(frozen=True, slots=True)
class Task:
    """A mutant of a core's kernel, or the kernel as it is."""

    core: Core
    mutant: Mutant | None


def grid(family: Family, gpu: GpuSpec, *, seed: int, draws: int, most: int | None = None) -> list[Core]:
    """Genomes that cover every pair of structural values that `draws` valid genomes hold.

    With `most`, the first so many of them: each is the one that adds most pairs for its work.
    """
    drawn = dict(_drawn(family, gpu, seed=seed, draws=draws))
    missing = _pairs(drawn)
    chosen: list[Core] = []
    while missing and len(chosen) != most:
        best = max(drawn, key=lambda core: len(_pairs([core]) & missing) / drawn[core] ** 0.5)
        chosen.append(best)
        missing -= _pairs([best])
    return chosen


def share_of_pairs(cores: Iterable[Core], *, seed: int, draws: int) -> float:
    """Of the pairs of structural values that the draws hold, what one family's cores cover."""
    chosen = list(cores)
    drawn = _drawn(load_family(chosen[0].family), load_gpu(chosen[0].gpu), seed=seed, draws=draws)
    return len(_pairs(chosen)) / len(_pairs(core for core, _ in drawn))


_Pair = tuple[tuple[str, object], tuple[str, object]]


def _pairs(cores: Iterable[Core]) -> set[_Pair]:
    """The pairs of structural values that any of them holds."""
    return {pair for core in cores for pair in _pairs_of(core)}


@cache
def _pairs_of(core: Core) -> frozenset[_Pair]:
    return frozenset(itertools.combinations(_features(load_family(core.family), core), 2))


def _drawn(family: Family, gpu: GpuSpec, *, seed: int, draws: int) -> Iterator[tuple[Core, float]]:
    """Cores and their work for the emulator, in arbitrary units; none of one warp, which has few races."""
    rng = np.random.default_rng([seed, zlib.crc32(family.name.encode())])
    for _ in range(draws):
        key = draw_key(family, gpu, rng)
        genome = draw_quickly(family, key, gpu, rng)
        if genome is None:
            continue
        loop = family.loop(family.names(genome.as_dict(), key, gpu))
        threads = family.launches(genome, key.workload(1, 1, 64, 64), gpu)[0].block[0]
        if threads > 32:
            work = (loop.rows + 9) * loop.keys * loop.stages * loop.splits * key.head_dim * key.gqa_ratio
            yield Core(family.name, genome, key, gpu.name), float(work)


def _features(family: Family, core: Core) -> list[tuple[str, object]]:
    key = core.key
    words = {
        "dtype": key.dtype,
        "causal": key.causal,
        "d64": key.head_dim == 64,
        "grouped": key.gqa_ratio > 1,
    }
    return sorted([*family.core(core.genome), *words.items()], key=str)


def tasks(cores: Iterable[Core], *, cores_each: int, groups: Iterable[str]) -> list[Task]:
    """Each kernel as it is, then its mutants: a predicate in the first `cores_each` kernels that have it."""
    work, seen = [], Counter[tuple[object, ...]]()
    for core in cores:
        work.append(Task(core, None))
        for mutant in mutants(core.render().source):
            if mutant.group not in groups:
                continue
            what = (core.family, core.key.causal, mutant.site, mutant.context, mutant.before, mutant.change)
            seen[what] += 1
            if mutant.group == "sync" or seen[what] <= cores_each:
                work.append(Task(core, mutant))
    return work
