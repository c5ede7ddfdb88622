"""The kernels that a portfolio is chosen from, and their compilation on all cores. Measures nothing.

They are the best of the database, those of the shipped archive and the families' seeds. A kernel here is a
genome that may be compiled for several head dimensions, types and masks; whether it is valid under one of
them is asked for each by itself. Where no GPU is there to ask, the kernels are emulated.
"""

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from evoflash.champions import champions, distance
from evoflash.errors import UsageError
from evoflash.evaluation import Build
from evoflash.evaluators.prepare import PREPARE_LIMIT_S, Preparation, prepare
from evoflash.isolation import Ending, IsolatedPool, raise_if_of_machine
from evoflash.kernels.family import Family, families_for, load_family
from evoflash.problem import Problem, parse_problem
from evoflash.space import Genome, SearchSpace
from evoflash.specs import GpuSpec
from evoflash.store.database import is_there
from evoflash.store.schema import leaderboard_sql
from evoflash.store.store import Store, open_store
from evoflash.workload import CompileKey, Workload

_FEW = 3  # of the database for each of its problems


@dataclass(frozen=True, slots=True)
class CandidateKernel:
    """A kernel that is known to be fast on a problem."""

    problem: Problem
    genome: Genome


def candidates(workloads: Sequence[Workload], gpu: GpuSpec, *, db: str, most: int) -> tuple[Genome, ...]:
    """At most `most` kernels for this GPU: for each shape in turn its nearest one that is not among them yet,
    a shape of each compile key after the other.

    UsageError where no family has any.
    """
    keys = Problem(tuple(workloads)).compile_keys(gpu.arch)
    operations = {workload.operation for workload in workloads}
    known = (*_stored_kernels(db, gpu), *_archived_kernels(gpu))  # another operation's say nothing of these
    sources = [each for each in known if each.problem.operation in operations]
    ways = [_nearest(workload, sources, keys, gpu) for workload in _in_turns(workloads, sources, gpu)]
    found: dict[Genome, None] = {}
    while ways and len(found) < most:
        for way in list(ways):
            genome = next((each for each in way if each not in found), None)
            if genome is None:
                ways.remove(way)
            elif len(found) < most:
                found[genome] = None
    if not found:
        raise UsageError(
            f"no family has a kernel for any of these shapes on {gpu.name}: see `evoflash families`."
        )
    return tuple(found)


def _in_turns(
    workloads: Sequence[Workload], sources: Sequence[CandidateKernel], gpu: GpuSpec
) -> list[Workload]:
    """The shapes, one of each compile key after the other; of a key first those that were searched for."""
    problems = [each.problem for each in sources]
    away = {w: min((distance(Problem((w,)), each) for each in problems), default=0.0) for w in workloads}
    of_keys: dict[CompileKey, list[Workload]] = {}
    for workload in sorted(workloads, key=away.__getitem__):
        of_keys.setdefault(workload.compile_key(gpu.arch), []).append(workload)
    turns = itertools.zip_longest(*of_keys.values())
    return [workload for turn in turns for workload in turn if workload is not None]


def valid_keys(genome: Genome, keys: Sequence[CompileKey], gpu: GpuSpec) -> tuple[CompileKey, ...]:
    """Those of the keys that the kernel can be compiled for."""
    return tuple(key for key in keys if _space(genome.family, (key,), gpu).is_valid(genome))


@lru_cache(maxsize=256)
def _space(family: str, keys: tuple[CompileKey, ...], gpu: GpuSpec) -> SearchSpace:
    """Made once: its conditions are compiled, and every candidate is asked for every key."""
    return load_family(family).space(keys, gpu)


def _nearest(
    workload: Workload, sources: Sequence[CandidateKernel], keys: Sequence[CompileKey], gpu: GpuSpec
) -> Iterator[Genome]:
    """Kernels valid for the shape: the known ones, nearest problem first, and between them the seeds."""
    problem = Problem((workload,))
    ranked = sorted(sources, key=lambda each: distance(problem, each.problem))
    families = families_for(gpu, workload.operation)
    fast = {
        each.genome.family for each in sources
    }  # a family that is the best nowhere has no seed worth trying
    seeding = [family for family in families if family.name in fast or not sources]
    known = (genome for each in ranked if (genome := _adapt(each.genome, families, keys, gpu)))
    seeds = (_adapt(seed, families, keys, gpu) for seed in _seeds(problem, seeding, gpu))
    mixed = itertools.chain.from_iterable(itertools.zip_longest(known, seeds))
    own = workload.compile_key(gpu.arch)
    yield from (genome for genome in mixed if genome and valid_keys(genome, (own,), gpu))


def _seeds(problem: Problem, families: Sequence[Family], gpu: GpuSpec) -> Iterator[Genome]:
    """The families' seeds for the shape, a family after the other in turns."""
    own = problem.compile_keys(gpu.arch)
    each = (family.seeds_for(problem, _space(family.name, own, gpu), gpu) for family in families)
    in_turns = itertools.zip_longest(*each)
    yield from (seed for turn in in_turns for seed in turn if seed is not None)


def adapt_to(genome: Genome, keys: Sequence[CompileKey], gpu: GpuSpec) -> Genome | None:
    """As _adapt(), by the genome's own family."""
    return _adapt(genome, [load_family(genome.family)], keys, gpu)


def _adapt(
    genome: Genome, families: Sequence[Family], keys: Sequence[CompileKey], gpu: GpuSpec
) -> Genome | None:
    """The genome with a value for each gene that is active under any of the keys; None where its family does
    not have it today.
    """
    family = next((each for each in families if each.name == genome.family), None)
    if family is None or family.version != genome.version:
        return None
    try:
        return _space(family.name, tuple(keys), gpu).genome(genome.as_dict())
    except UsageError:  # a gene or a value that the family has no more
        return None


def _archived_kernels(gpu: GpuSpec) -> list[CandidateKernel]:
    return [CandidateKernel(parse_problem(each.problem), each.genome) for each in champions(gpu.name)]


def _stored_kernels(db: str, gpu: GpuSpec) -> list[CandidateKernel]:
    """The best few of every attention problem in the database on this GPU, measured before estimated."""
    if not is_there(db):
        return []
    with open_store(db, read_only=True) as store:
        return list(_few(store, gpu))


def _few(store: Store, gpu: GpuSpec) -> Iterator[CandidateKernel]:
    query = (
        f"SELECT problem, genome_id FROM ({leaderboard_sql()}) AS board WHERE kind = 'candidate' "
        "AND gpu = :gpu AND basis = :basis AND rank <= :most ORDER BY problem, rank"
    )
    for basis in ("measured", "estimated"):
        _, ranked = store.query(query, {"gpu": gpu.name, "basis": basis, "most": _FEW})
        for problem, genome_id in ranked:
            found = [each for each in store.find(genome_id) if each.genome.id == genome_id]
            if found:
                yield CandidateKernel(parse_problem(problem), found[0].genome)


@dataclass(frozen=True, slots=True)
class BuildResult:
    """A kernel compiled for one compile key, or the reason why it is none."""

    genome: Genome
    key: CompileKey
    prepared: Preparation | None = None
    reason: str = ""

    @property
    def build(self) -> Build:
        assert self.prepared is not None, "asked of what has no reason only"
        return self.prepared.builds[0]


Parts = Mapping[tuple[str, CompileKey], BuildResult]  # by genome id and key


def build_all(
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
    return {(genome.id, key): _build_result(genome, key, ended.get((genome, key))) for genome, key in pairs}


def _of(key: CompileKey, workloads: Sequence[Workload], gpu: GpuSpec) -> Problem:
    return Problem(tuple(w for w in workloads if w.compile_key(gpu.arch) == key))


def _build_result(genome: Genome, key: CompileKey, ending: Ending[Preparation] | None) -> BuildResult:
    if ending is None:
        return BuildResult(genome, key, reason="not valid for this head dimension, type or mask")
    raise_if_of_machine(ending)
    if ending.value is None:
        return BuildResult(genome, key, reason=f"{ending.status}: {ending.reason}")
    if failure := ending.value.failure:
        return BuildResult(genome, key, reason=f"{failure.status} at {failure.rung}: {failure.reason}")
    return BuildResult(genome, key, ending.value)
