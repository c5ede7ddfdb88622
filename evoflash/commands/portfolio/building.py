"""Kernels compiled for every compile key of a mix on all cores, and emulated where no GPU is there to ask.

Measures nothing.
"""

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evoflash.evaluation import Build
from evoflash.evaluators.prepare import PREPARE_LIMIT_S, Prepared, prepare
from evoflash.gpu import GpuSpec
from evoflash.isolation import Ending, IsolatedPool
from evoflash.operation import CompileKey, Workload
from evoflash.problem import Problem
from evoflash.space import Genome

from evoflash.commands.portfolio.candidates import valid_keys  # isort: skip


@dataclass(frozen=True, slots=True)
class Built:
    """A kernel compiled for one compile key, or the reason why it is none."""

    genome: Genome
    key: CompileKey
    prepared: Prepared | None = None
    reason: str = ""

    @property
    def build(self) -> Build:
        assert self.prepared is not None, "asked of what has no reason only"
        return self.prepared.builds[0]


Parts = Mapping[tuple[str, CompileKey], Built]  # by genome id and key


def built(
    genomes: Sequence[Genome], workloads: Sequence[Workload], gpu: GpuSpec, *, emulate: bool, seed: int = 0
) -> Parts:
    """Every kernel under every compile key of the workloads; where it is not valid that is its reason."""
    keys = Problem(tuple(workloads)).compile_keys(gpu.arch)
    pairs = list(itertools.product(genomes, keys))
    valid = {genome: valid_keys(genome, keys, gpu) for genome in genomes}
    with IsolatedPool(len(os.sched_getaffinity(0))) as pool:
        waiting = {
            (genome, key): pool.submit(
                prepare, genome, _of(key, workloads, gpu), gpu, emulate, seed, timeout_s=PREPARE_LIMIT_S
            )
            for genome, key in pairs
            if key in valid[genome]
        }
        ended = {pair: future.result() for pair, future in waiting.items()}
    return {(genome.id, key): _built(genome, key, ended.get((genome, key))) for genome, key in pairs}


def _of(key: CompileKey, workloads: Sequence[Workload], gpu: GpuSpec) -> Problem:
    return Problem(tuple(w for w in workloads if w.compile_key(gpu.arch) == key))


def _built(genome: Genome, key: CompileKey, ending: Ending[Prepared] | None) -> Built:
    if ending is None:
        return Built(genome, key, reason="not valid for this head dimension, type or mask")
    if ending.value is None:
        return Built(genome, key, reason=f"{ending.status}: {ending.reason}")
    if failure := ending.value.failure:
        return Built(genome, key, reason=f"{failure.status} at {failure.rung}: {failure.reason}")
    return Built(genome, key, ending.value)
