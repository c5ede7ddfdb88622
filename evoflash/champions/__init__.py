"""The shipped archive of the best genome measured for each problem. Measures nothing.

champions/<gpu>.toml is written by scripts.pages.champions. It may name a GPU of the same SMs (`starts_from`),
whose champions and past searches are a start too. A champion is where a search starts,
and an answer, on its own GPU, only once it was checked again (app/best.py). Which problems are near one
another is told here.

    evidence       What is known of the time of one kernel
    past_searches  The outcomes of searches that ship with evoflash, for a new search to learn from
"""

import logging
import math
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from evoflash import operation as registry
from evoflash.errors import UsageError
from evoflash.evaluation import Status
from evoflash.kernels.family import load_family
from evoflash.paths import CHAMPIONS
from evoflash.problem import Problem, parse_problem
from evoflash.space import Genome, SearchSpace
from evoflash.specs import GpuSpec

log = logging.getLogger(__name__)
NEAR = 3.0  # champions of problems further away are not tried
ARCHIVED = "archived"  # the basis of a time that was measured on another machine and ships with evoflash
MOST = 3  # of a family: of the bandit's four opening proposals one is left for the family's own first seed


@dataclass(frozen=True, slots=True)
class Champion:
    """A genome and its medians in us of one run, the libraries' in turns with its own."""

    problem: str  # canonical, str(Problem)
    gpu: str  # the name of its GpuSpec
    genome: Genome
    device: str  # as the driver reports it
    date: str  # of the measurement, ISO 8601
    evoflash: str  # version that measured it; empty where the record does not say
    protocol: str  # of all times here
    us: float  # geometric mean over the problem's workloads
    rivals_us: Mapping[str, float]  # by baseline name
    source: str  # the record or database that says so
    command: str  # what measured it
    # Libraries that did not run then: cuDNN's time of that run times their ratio to cuDNN of another day.
    bridged_us: Mapping[str, float] = field(default_factory=dict)

    @property
    def fastest_rival(self) -> tuple[str, float] | None:
        """The library that came nearest or was ahead, bridged ones among them, and its time in us."""
        return min({**self.rivals_us, **self.bridged_us}.items(), key=lambda each: each[1], default=None)

    def as_dict(self) -> dict[str, Any]:
        """Keys as an evaluation's where they mean the same; its time stands apart, because it is no score."""
        apart = ("genome", "problem", "gpu")
        values = self.genome.as_dict()
        return {
            "genome": {"id": self.genome.id, "family": self.genome.family, "values": values},
            "problem": self.problem,
            "gpu": self.gpu,
            "basis": ARCHIVED,
            "status": Status.CORRECT.value,
            "score_us": None,
            "archived": {name: value for name, value in asdict(self).items() if name not in apart},
        }

    @property
    def measured_on(self) -> str:
        return f"archived, measured on {self.device}, {self.date}"

    @property
    def time(self) -> str:
        """The time with its mark: it was measured on another machine."""
        return f"{self.us:.2f} us, {self.measured_on}"

    @property
    def rivals_in_words(self) -> str:
        """The libraries' times, and how the fastest of them stands to the kernel; empty where none ran."""
        if self.fastest_rival is None:
            return ""
        ran, bridged = sorted(self.rivals_us.items(), key=_us), sorted(self.bridged_us.items(), key=_us)
        said = [f"in the same run {', '.join(f'{name} {us:.2f} us' for name, us in ran)}"] if ran else []
        said += [f"bridged by way of cuDNN {', '.join(f'{n} {us:.2f} us' for n, us in bridged)}"] * bool(
            bridged
        )
        name, us = self.fastest_rival
        return f"{'; '.join(said)}; the fastest of them, {name}, takes {us / self.us:.2f} times as long"


def _us(named: tuple[str, float]) -> float:
    return named[1]


@cache
def champions(gpu: str) -> tuple[Champion, ...]:
    """The archive of a GPU by its spec's name; empty where nothing was measured on one."""
    path = CHAMPIONS / f"{gpu}.toml"
    return read_champions(path) if path.exists() else ()


@cache
def archives(gpu: str) -> tuple[str, ...]:
    """The GPUs, by their specs' names, from whose archives a search on this one starts; itself first."""
    path = CHAMPIONS / f"{gpu}.toml"
    if not path.exists():
        return (gpu,)
    other = tomllib.loads(path.read_text(encoding="utf-8")).get("starts_from")
    return (gpu, other) if other else (gpu,)


def known_starts(gpu: str) -> tuple[Champion, ...]:
    """The champions from which a search on the GPU may start, its own first."""
    return tuple(each for name in archives(gpu) for each in champions(name))


def read_champions(path: Path) -> tuple[Champion, ...]:
    """The champions of one file, champions/<gpu>.toml. UsageError for values that do not give their id."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    sources = table.get("source", {})
    return tuple(_champion(entry | sources[entry["source"]], path) for entry in table.get("champion", ()))


def _champion(entry: dict[str, Any], path: Path) -> Champion:
    values = tuple(sorted(entry.pop("values").items()))
    genome = Genome(entry.pop("family"), entry.pop("version"), values)
    if genome.id != (said := entry.pop("genome_id")):
        raise UsageError(f"{path}: the values of {said} give {genome.id}: make the file anew.")
    return Champion(genome=genome, gpu=path.stem, **entry)


def champion_of(problem: Problem, gpu: str) -> Champion | None:
    """The champion of exactly this problem on this GPU."""
    return next((each for each in champions(gpu) if each.problem == str(problem)), None)


def champion_today(problem: Problem, gpu: GpuSpec) -> Champion | None:
    """The champion of exactly this problem on this GPU, if it still is a kernel: see of_today."""
    known = champion_of(problem, gpu.name)
    if known is None:
        return None
    return of_today(known, load_family(known.genome.family).space(problem.compile_keys(gpu.arch), gpu))


def starts(problem: Problem, space: SearchSpace, gpu: str) -> tuple[Genome, ...]:
    """Where a search of the space for the problem starts: at most MOST champions' genomes, nearest first.

    They are completed to genomes of this space. What an older version of the family or another space made
    invalid is left out, with a line in the log.
    """
    ours = [each for each in known_starts(gpu) if each.genome.family == space.family]
    ranked = sorted(ours, key=lambda each: distance(problem, parse_problem(each.problem)))
    near = [each for each in ranked if distance(problem, parse_problem(each.problem)) <= NEAR]
    found = (adapt(each, space) for each in near)
    return tuple(dict.fromkeys(genome for genome in found if genome is not None))[:MOST]


def family_shares_near(problem: Problem, gpu: str) -> dict[str, float]:
    """Each family's share of the champions near the problem, the nearest counting most; empty if none is."""
    weights: dict[str, float] = {}
    for each in known_starts(gpu):
        far = distance(problem, parse_problem(each.problem))
        if far <= NEAR:
            weights[each.genome.family] = weights.get(each.genome.family, 0.0) + math.exp(-far)
    total = sum(weights.values())
    return {family: weight / total for family, weight in weights.items()}


def adapt(champion: Champion, space: SearchSpace) -> Genome | None:
    """The champion's genome in a space of today; None, and a line in the log, where it has none."""
    try:
        return _valid(champion.genome, space)
    except UsageError as reason:
        log.info("archive: %s for %s is left out: %s", champion.genome.id, champion.problem, reason)
        return None


def of_today(champion: Champion, space: SearchSpace) -> Champion | None:
    """The champion of this space's problem, with the genes that its family got since at their first values:
    the kernel that was measured, which did without them. None where it is a genome no more.
    """
    genome = adapt(champion, space)
    if genome is None or not set(champion.genome.values) <= set(genome.values):
        return None
    return replace(champion, genome=genome)


def _valid(genome: Genome, space: SearchSpace) -> Genome:
    if genome.version != space.version:
        raise UsageError(f"it is of version {genome.version} of {genome.family}, now at {space.version}.")
    found = space.genome(genome.as_dict())
    if broken := space.violations(found):
        raise UsageError(f"it fails {', '.join(broken)}.")
    return found


def distance(problem: Problem, other: Problem) -> float:
    """How far `other` is from `problem`: 0 is the same; the mean over its workloads of the nearest there.

    Problems of two operations are infinitely far apart.
    """
    if problem.operation != other.operation:
        return math.inf
    between = registry.load(problem.operation).distance
    nearest = [min(between(mine, theirs) for theirs in other.workloads) for mine in problem.workloads]
    return sum(nearest) / len(nearest)
