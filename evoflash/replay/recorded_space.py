"""Recorded search spaces: genomes whose outcomes were measured once. Reads no file and evaluates nothing.

What was recorded is what is valid: the restrictions of whoever recorded it are not in the record.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from evoflash.errors import UsageError
from evoflash.evaluation import Basis, Rung, Status
from evoflash.space import Genome, Param, SearchSpace, Value, Values

_Prefix = tuple[tuple[str, Value], ...]  # the active params before one param, with their values


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one genome when it was recorded; `score_us`: only of correct or screened ones."""

    status: Status
    rung: Rung
    reason: str = ""
    score_us: float | None = None
    times_us: tuple[float, ...] = ()  # single launches, where the record has them
    is_lower_bound: bool = False  # it was too slow to be timed, or proven, in full: no time to rank by
    compile_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RecordedSpace(SearchSpace):
    """A search space of the genomes in `outcomes`, in their order, and no others."""

    outcomes: Mapping[Genome, Outcome] = field(default_factory=dict)
    genomes: tuple[Genome, ...] = ()  # the keys of `outcomes`, to draw from

    def violations(self, genome: Genome) -> tuple[str, ...]:
        """`recorded` when the genome was not."""
        return () if self.is_valid(genome) else ("recorded",)

    def is_valid(self, genome: Genome) -> bool:
        return genome in self.outcomes

    def sample(self, rng: np.random.Generator, *, tries: int = 20_000) -> Genome:
        """A recorded genome, each equally likely; it finds one however sparse the record is."""
        return self.genomes[int(rng.integers(len(self.genomes)))]

    def __iter__(self) -> Iterator[Genome]:
        """Every recorded genome once, in the order of the record."""
        return iter(self.genomes)


def recorded_space(
    family: str, params: Sequence[Param], outcomes: Mapping[Genome, Outcome], *, version: int = 1
) -> RecordedSpace:
    """The space of `outcomes`; when a param is active is read off the genomes that lack it.

    UsageError when there is nothing in it.
    """
    if not outcomes:
        raise UsageError(f"the record of {family} holds no configuration: record some first.")
    when = _conditions([param.name for param in params], outcomes)
    return RecordedSpace(
        family, tuple(params), version, when=when, outcomes=outcomes, genomes=tuple(outcomes)
    )


def _conditions(names: Sequence[str], genomes: Iterable[Genome]) -> dict[str, Callable[[Values], bool]]:
    # A condition looks at earlier params alone, so their values decide. Values that were never recorded
    # leave a param active: such a genome is not valid anyway.
    absent: dict[str, set[_Prefix]] = defaultdict(set)
    for genome in genomes:
        values = genome.as_dict()
        chosen: list[tuple[str, Value]] = []
        for name in names:
            if name in values:
                chosen.append((name, values[name]))
            else:
                absent[name].add(tuple(chosen))
    return {name: partial(_is_active, frozenset(prefixes)) for name, prefixes in absent.items()}


def _is_active(absent: frozenset[_Prefix], chosen: Values) -> bool:
    return tuple(chosen.items()) not in absent


@dataclass(frozen=True, slots=True)
class Summary:
    """What was recorded, where, and how much of it."""

    problem: str
    device: str
    basis: str
    configurations: int
    correct: int
    optimum_us: float

    @property
    def title(self) -> str:
        """In one line."""
        mark = ", times ESTIMATED by a model" if self.basis == Basis.ESTIMATED.value else ""
        return (
            f"{self.problem} on {self.device}: {self.configurations} configurations, "
            f"{self.correct} correct, optimum {self.optimum_us:.4g} us{mark}"
        )


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded space, what it computes and where it was recorded."""

    space: RecordedSpace
    problem: str
    device: str
    basis: Basis = Basis.MEASURED  # where its times come from
    problem_size: tuple[int, ...] = ()  # what Kernel Tuner knows of the problem
    notes: Mapping[str, str] = field(default_factory=dict)  # by whom, when and how it was recorded
    model_version: str = ""  # of the performance model, where its times are estimates

    @property
    def scores_us(self) -> list[float]:
        """The times of its correct genomes, fastest first; lower bounds are not times."""
        timed = (o for o in self.space.outcomes.values() if not o.is_lower_bound)
        return sorted(o.score_us for o in timed if o.score_us is not None)

    @property
    def summary(self) -> Summary:
        """IndexError where nothing was correct."""
        times_us = self.scores_us
        size = len(self.space.genomes)
        return Summary(self.problem, self.device, self.basis.value, size, len(times_us), times_us[0])
