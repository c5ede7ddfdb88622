"""The rows of records/anchors-h200.json, which kernels of ours may stand for each, and who shares a process.

Compiles, checks and times nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evoflash.champions import Champion, known_starts, of_today, starts
from evoflash.errors import UsageError
from evoflash.evaluation import Basis, Run
from evoflash.kernels.family import families_for, load_family
from evoflash.operations.attention.workload import AttentionWorkload, parse_workload
from evoflash.problem import Problem, parse_problem
from evoflash.space import Genome, SearchSpace
from evoflash.specs import GpuSpec
from evoflash.store.store import Store, open_store
from scripts.records import read_record

ANCHORS = Path(__file__).parent / "records" / "anchors-h200.json"
# The most telling first: where time runs out, these have figures.
ROWS = (
    "s2k_d128,causal",
    "s2k_d64",
    "mission",
    "s8k_d128",
    "s8k_d64,causal",
    "decode8k",
    "short128",
    "gqa4k_d128,causal",
    "s4k_d128,dtype=bf16",
    "s1k_d64,causal",
    "s2k_d128",
    "s2k_d64,causal",
    "s4k_d128,causal",
    "s8k_d64",
    "mission,causal",
    "short256",
    "gqa8k_d128,causal",
    "s16k_d128",
    "s4k_d128,causal,dtype=bf16",
    "s1k_d64",
    "s4k_d128",
    "s8k_d128,causal",
    "gqa4k_d128",
    "short128,causal",
    "short256,causal",
    "mission,dtype=bf16",
    "mission,causal,dtype=bf16",
    "s8k_d64,dtype=bf16",
    "s8k_d64,causal,dtype=bf16",
    "gqa8k_d128",
    "s16k_d128,causal",
)
# Rows of one process share what libraries compile for them. More of them would not fit in its caches of
# inputs and references (evoflash/gpu/process/cache.py: 12 large trials, four for each workload).
TOGETHER = 3


@dataclass(frozen=True, slots=True)
class Ours:
    """A kernel of ours that may stand for a row, and where it is from."""

    genome: Genome
    known_us: float | None  # as its source says; None where it was found on another problem
    source: str


def workload_of(row: str) -> AttentionWorkload:
    """A row is a problem of one workload."""
    return parse_workload(row)


def anchors() -> Mapping[str, dict[str, Any]]:
    """What the libraries took on another day, by row."""
    record = read_record(ANCHORS)
    return {row["problem"]: row for row in record["rows"]}


def part_of(rows: Sequence[str], part: str) -> tuple[str, ...]:
    """The rows of `part`, "0/2" or "1/2" of them: whole processes, dealt out in turn, in the rows' order."""
    which, _, parts = part.partition("/")
    mine = {row for chunk in chunks(rows)[int(which) :: int(parts)] for row in chunk}
    return tuple(row for row in rows if row in mine)


def chunks(rows: Sequence[str]) -> list[tuple[str, ...]]:
    """Rows that share a process: of one compile key, single queries apart, the smallest first."""
    groups: dict[object, list[str]] = {}
    for row in sorted(rows, key=lambda row: workload_of(row).bytes_moved):
        workload = workload_of(row)
        groups.setdefault((workload.compile_key(""), workload.seq_q == 1), []).append(row)
    return [
        tuple(group[at : at + TOGETHER]) for group in groups.values() for at in range(0, len(group), TOGETHER)
    ]


def ours(row: str, spec: GpuSpec, dbs: Sequence[str], *, count: int) -> tuple[Ours, ...]:
    """At most `count` kernels: those measured right on exactly this problem, fastest first, of the archive
    and the databases. Where there is none of these, what the archive has near it, or a family's seed.
    Besides, the first seeds of families that are for such shapes alone: they may be newer than the archive.
    """
    problem = parse_problem(row)
    found = [*_archived(problem, spec), *(each for db in dbs for each in _stored(db, problem, spec))]
    valid = [each for each in found if _is_valid(each.genome, problem, spec)]
    ranked = sorted(valid, key=lambda each: each.known_us or 0.0)
    distinct = {each.genome.id: each for each in reversed(ranked)}  # the fastest of each genome stays
    best = sorted(distinct.values(), key=lambda each: each.known_us or 0.0)
    return (*(tuple(best[:count]) or _near(problem, spec, count=count)), *_meant(problem, spec))


def _champion(problem: Problem, spec: GpuSpec) -> Champion | None:
    """Of exactly this problem, as it is today: of this GPU, or of the one of the same SMs from whose archive
    a search on this one starts.
    """
    exact = (each for each in known_starts(spec.name) if each.problem == str(problem))
    today = (of_today(each, _space(each.genome.family, problem, spec)) for each in exact)
    return next((each for each in today if each is not None), None)


def _space(family: str, problem: Problem, spec: GpuSpec) -> SearchSpace:
    return load_family(family).space(problem.compile_keys(spec.arch), spec)


def _archived(problem: Problem, spec: GpuSpec) -> Iterator[Ours]:
    known = _champion(problem, spec)
    if known is not None:  # a time of another GPU ranks beside no time of this one
        yield Ours(known.genome, known.us if known.gpu == spec.name else None, f"archive ({known.source})")


def _stored(db: str, problem: Problem, spec: GpuSpec) -> Iterator[Ours]:
    with open_store(db, read_only=True) as store:
        for run in store.runs():
            if (run.key.problem, run.key.gpu, run.key.basis) == (str(problem), spec.name, Basis.MEASURED):
                yield from _of_run(store, run, f"{Path(db).name}, run {run.id}")


def _of_run(store: Store, run: Run, source: str) -> Iterator[Ours]:
    for _, e in store.history(run):
        if e.is_correct and e.score_us and not e.is_censored and not e.duplicate_of:
            yield Ours(e.genome, e.score_us, source)


def _is_valid(genome: Genome, problem: Problem, spec: GpuSpec) -> bool:
    """Whether it is a genome of its family as it is today, for this problem."""
    space = _space(genome.family, problem, spec)
    try:
        same = space.genome(genome.as_dict()) == genome
    except UsageError:
        return False
    return same and not space.violations(genome)


def _meant(problem: Problem, spec: GpuSpec) -> Iterator[Ours]:
    for family in families_for(spec):
        if family.fits.text is not True and family.suits(problem, spec):
            seeds = family.seeds_for(problem, family.space(problem.compile_keys(spec.arch), spec), spec)
            yield from (Ours(each, None, "a seed") for each in seeds[:3])


def _near(problem: Problem, spec: GpuSpec, *, count: int) -> tuple[Ours, ...]:
    """Of the archive, or else of the families' own seeds for such a problem."""
    keys = problem.compile_keys(spec.arch)
    found: list[Ours] = []
    for family in families_for(spec)[::-1]:  # the one with the newest instructions first
        space = family.space(keys, spec)
        near = (
            Ours(each, None, "archive, of a problem near it") for each in starts(problem, space, spec.name)
        )
        seeds = (Ours(each, None, "a seed") for each in family.seeds_for(problem, space, spec)[:1])
        found += [*near, *seeds]
    return tuple(found[:count])
