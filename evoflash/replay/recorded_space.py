"""A recorded search space, and the evaluator that looks outcomes up in it. Compiles and measures nothing.

Its genomes' outcomes were measured once. What was recorded is what is valid: the restrictions of whoever
recorded it are not in the record. Reads no file.
"""

import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from evoflash.errors import UsageError
from evoflash.evaluation import Basis, Evaluation, Proposal, Rung, Status, Timing
from evoflash.space import Genome, Param, SearchSpace, Value, Values

_Prefix = tuple[tuple[str, Value], ...]  # the active params before one param, with their values


@dataclass(frozen=True, slots=True)
class RecordedOutcome:
    """What became of one genome when it was recorded; `score_us`: only of correct or screened ones."""

    status: Status
    rung: Rung
    reason: str = ""
    score_us: float | None = None
    times_us: tuple[float, ...] = ()  # single launches, where the record has them
    is_lower_bound: bool = False  # it was too slow to be timed, or proven, in full: no time to rank by
    compile_s: float = 0.0

    @property
    def time_us(self) -> float:
        """The recorded time; infinite where it failed, was not proven to be right, or is a lower bound."""
        is_proven = self.status is Status.CORRECT and not self.is_lower_bound
        return self.score_us if is_proven and self.score_us is not None else math.inf


@dataclass(frozen=True, slots=True)
class RecordedSpace(SearchSpace):
    """A search space of the genomes in `outcomes`, in their order, and no others."""

    outcomes: Mapping[Genome, RecordedOutcome] = field(default_factory=dict)
    genomes: tuple[Genome, ...] = ()  # the keys of `outcomes`, to draw from

    def violations(self, genome: Genome) -> tuple[str, ...]:
        """`recorded` when the genome was not."""
        return () if self.is_valid(genome) else ("recorded",)

    def is_valid(self, genome: Genome) -> bool:
        return genome in self.outcomes

    def sample(self, rng: np.random.Generator, *, tries: int = 20_000) -> Genome:
        """A recorded genome, each equally likely; it finds one however sparse the record is."""
        return self.genomes[int(rng.integers(len(self.genomes)))]

    def some(self, most: int, rng: np.random.Generator) -> tuple[tuple[Genome, ...], bool]:
        """Recorded genomes, each equally likely; all where there are no more."""
        if len(self.genomes) <= most:
            return self.genomes, True
        chosen = rng.choice(len(self.genomes), most, replace=False)
        return tuple(self.genomes[int(at)] for at in chosen), False

    def __iter__(self) -> Iterator[Genome]:
        """Every recorded genome once, in the order of the record."""
        return iter(self.genomes)


def recorded_space(
    family: str, params: Sequence[Param], outcomes: Mapping[Genome, RecordedOutcome], *, version: int = 1
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
class SpaceSummary:
    """What was recorded, where, and how much of it."""

    problem: str
    device: str
    basis: str
    configurations: int
    correct: int
    optimum_us: float  # of the correct ones
    screened: int = field(default=0, kw_only=True)  # that looked right and were not proven
    model_version: str = field(default="", kw_only=True)  # of estimates

    @property
    def title(self) -> str:
        is_estimated = self.basis == Basis.ESTIMATED.value
        mark = f", times ESTIMATED by model {self.model_version or 'unknown'}" if is_estimated else ""
        unproven = f", {self.screened} more looked right and were not proven" if self.screened else ""
        return (
            f"{self.problem} on {self.device}: {self.configurations} configurations, {self.correct} correct"
            f"{unproven}, optimum {'~' * is_estimated}{self.optimum_us:.4g} us{mark}"
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
    remarks: tuple[str, ...] = field(default=(), compare=False)  # what a person should know of its file

    @property
    def scores_us(self) -> list[float]:
        """The times of its correct genomes, fastest first. Lower bounds are not times, and a screened genome
        was not proven to be right: the optimum is never its.
        """
        return sorted(o.time_us for o in self.space.outcomes.values() if o.time_us < math.inf)

    @property
    def screened_count(self) -> int:
        """How many of its genomes looked right and were not proven."""
        return sum(o.status is Status.SCREENED for o in self.space.outcomes.values())

    @property
    def summary(self) -> SpaceSummary:
        """IndexError where nothing was correct."""
        times_us = self.scores_us
        size = len(self.space.genomes)
        where = self.problem, self.device, self.basis.value
        return SpaceSummary(
            *where,
            size,
            len(times_us),
            times_us[0],
            screened=self.screened_count,
            model_version=self.model_version,
        )


PROTOCOL = "recorded"
_UNKNOWN = RecordedOutcome(Status.CONSTRAINTS, Rung.CHECKS, "not in the recorded space")


class ReplayedEvaluator:
    """Looks outcomes up; each costs one evaluation, failures included."""

    basis = Basis.REPLAYED
    has_arrived = False  # each is told before the next is looked up

    def __init__(self, recording: Recording, *, ahead: int = 1) -> None:
        """`ahead` proposals are kept in flight, as by evaluators that take time."""
        self.ahead = ahead
        self._recording = recording
        self._queue: deque[Proposal] = deque()

    @property
    def pending(self) -> int:
        return len(self._queue)

    def submit(self, proposal: Proposal) -> None:
        """Queue a proposal."""
        self._queue.append(proposal)

    def collect(self) -> tuple[Proposal, Evaluation]:
        """The oldest pending proposal's recorded outcome."""
        proposal = self._queue.popleft()
        return proposal, self._evaluation(proposal.genome)

    def cancel(self) -> None:
        self._queue.clear()

    def _evaluation(self, genome: Genome) -> Evaluation:
        outcome = self._recording.space.outcomes.get(genome, _UNKNOWN)
        problem = self._recording.problem
        return Evaluation(
            genome,
            problem,
            self._recording.device,
            self.basis,
            outcome.status,
            outcome.rung,
            outcome.reason,
            timings=() if outcome.score_us is None else (_timing(problem, outcome, outcome.score_us),),
            score_us=outcome.score_us,
            model_version=self._recording.model_version,
        )


def _timing(problem: str, outcome: RecordedOutcome, score_us: float) -> Timing:
    bound, times_us = outcome.is_lower_bound, outcome.times_us
    if len(times_us) < 2:  # of one number nobody knows how far it may be off
        return Timing(problem, PROTOCOL, score_us, None, None, len(times_us), censored=bound)
    p10, median, p90 = (float(np.quantile(times_us, q)) for q in (0.1, 0.5, 0.9))
    return Timing(problem, PROTOCOL, median, p10, p90, len(times_us), censored=bound)
