"""Genomes, params and search spaces: what can be chosen, and what was. Knows no template and no GPU."""

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from evoflash.errors import UsageError, did_you_mean

Value = int | bool | str
Values = Mapping[str, Value]
_BATCH = 256  # points drawn at once
_EXACT, _SOUGHT, _POOL = 20_000, 100_000, 32  # draws of each kind for a sample; genomes that it chooses from
_Domain = tuple[str, tuple[Value, ...], Callable[[Values], bool] | None]  # name, values, when it is active


def word_of(value: object) -> str:
    """A gene's value as it is written behind `--set NAME=`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def is_among(value: Value | None, values: Iterable[Value]) -> bool:
    """Whether the value is one of them: True equals 1 in Python, but a switch is no number."""
    return any(value is v or (value == v and type(value) is type(v)) for v in values)


class _HashRoom:
    """Room for a hash that is worked out once: a search asks a thousand times which genomes it knows."""

    __slots__ = ("_hash",)
    _hash: int


@dataclass(frozen=True, slots=True)
class Genome(_HashRoom):
    """One point of a search space: a kernel family and a value for each of its active params."""

    family: str
    version: int
    values: tuple[tuple[str, Value], ...]  # sorted by name, so that equal genomes are equal
    # What was changed in the text that is rendered of it, one after the other: what stands there, and what
    # stands there instead. Such a genome is no point of a search space.
    edits: tuple[tuple[str, str], ...] = ()

    @property
    def id(self) -> str:
        """Sixteen hex digits, the same on every machine."""
        edits = [self.edits] if self.edits else []
        text = json.dumps([self.family, self.version, self.values, *edits], separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def root(self) -> "Genome":
        """The genome whose text was edited; itself where none was."""
        return Genome(self.family, self.version, self.values)

    def as_dict(self) -> dict[str, Value]:
        return dict(self.values)

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", hash((self.family, self.version, self.values, self.edits)))
            return self._hash

    def __str__(self) -> str:
        edits = f" with {len(self.edits)} edits of its text" if self.edits else ""
        return f"{self.family}(" + ", ".join(f"{k}={v}" for k, v in self.values) + f"){edits}"


@dataclass(frozen=True, slots=True)
class Param:
    """One gene: its name and the values it can take, in an order in which neighbours stand together."""

    name: str
    values: tuple[Value, ...]

    def neighbours(self, value: Value) -> tuple[Value, ...]:
        """The adjacent values of a number; every other value of a word or a switch."""
        at = self.values.index(value)
        if all(isinstance(v, int) and not isinstance(v, bool) for v in self.values):
            return self.values[max(0, at - 1) : at] + self.values[at + 1 : at + 2]
        return self.values[:at] + self.values[at + 1 :]


@dataclass(frozen=True, slots=True)
class Check:
    """A named condition on the values; its name is what reports count."""

    name: str
    holds: Callable[[Values], bool]


@dataclass(frozen=True, slots=True)
class Proportions:
    """What is known of a genome before it is tried, as numbers that a model may learn from."""

    names: tuple[str, ...]
    of: Callable[[Genome], tuple[float, ...]]  # of a valid genome, one for each name
    sizes: tuple[float, ...] = ()  # of the problem itself, which tell it from others of its operation


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """Everything a strategy needs to know: params, when each is active, checks, and blocks of coupled params.

    Built from a kernel family for one compile key and GPU, or from plain params (a recorded space).
    """

    family: str
    params: tuple[Param, ...]
    version: int = 1
    checks: tuple[Check, ...] = ()
    when: Mapping[str, Callable[[Values], bool]] = field(default_factory=dict)
    blocks: tuple[tuple[str, ...], ...] = ()  # crossover exchanges whole blocks; default: each param alone
    # all checks at once, where there is a faster way than one by one
    passes: Callable[[Values], bool] | None = None
    proportions: Proportions | None = None
    partition: tuple[str, ...] = ()  # params that say how the work is divided, the tile's among them

    def param(self, name: str) -> Param:
        for param in self.params:
            if param.name == name:
                return param
        hint = did_you_mean(name, self.names)
        raise UsageError(f"{self.family} has no param '{name}'.{hint} It has {', '.join(self.names)}.")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(param.name for param in self.params)

    @property
    def cardinality(self) -> int:
        """Points of the raw product, before inactive params are dropped and checks applied."""
        return math.prod(len(param.values) for param in self.params)

    def genome(self, values: Values) -> Genome:
        """Canonical genome: inactive params dropped, missing active ones at their first value.

        Raises UsageError for an unknown param or a value outside its domain.
        """
        chosen: dict[str, Value] = {}
        for name in values:
            self.param(name)
        for param in self.params:
            value = values.get(param.name, param.values[0])
            if not is_among(value, param.values):
                allowed = ", ".join(map(str, param.values))
                raise UsageError(f"{self.family}.{param.name}={value} is not a value: use one of {allowed}.")
            if self._active(param.name, chosen):
                chosen[param.name] = value
        return Genome(self.family, self.version, tuple(sorted(chosen.items())))

    def _active(self, name: str, chosen: Values) -> bool:
        # A condition may only look at params declared before the one it switches.
        return name not in self.when or self.when[name](chosen)

    def has_point(self, genome: Genome) -> bool:
        """Whether the genome is one of this space, valid or not: one that a store holds may be of an older
        version of the family.
        """
        try:
            return self.genome(genome.as_dict()) == genome
        except UsageError:
            return False

    def __contains__(self, genome: Genome) -> bool:
        """Whether it is a valid genome of this space: a seed may ask too much of this GPU."""
        return self.has_point(genome) and self.is_valid(genome)

    def violations(self, genome: Genome) -> tuple[str, ...]:
        """Names of the checks that the genome fails; empty means valid."""
        values = genome.as_dict()
        return tuple(check.name for check in self.checks if not check.holds(values))

    def is_valid(self, genome: Genome) -> bool:
        return self._passes(genome.as_dict())

    def _passes(self, values: Values) -> bool:
        if self.passes is not None:
            return self.passes(values)
        return all(check.holds(values) for check in self.checks)

    def draw(self, rng: np.random.Generator) -> Genome | None:
        """One point of the raw product if it is a valid genome, each of them equally likely; else None.

        The share of hits times `cardinality` estimates how many valid genomes there are.
        """
        return self._at(rng.integers(0, [len(p.values) for p in self.params]), self._domains())

    def some(self, most: int, rng: np.random.Generator) -> tuple[tuple[Genome, ...], bool]:
        """At most so many valid genomes, and whether they are all; of more points, some draws."""
        if self.cardinality <= most:
            return tuple(self), True
        drawn = (self.draw(rng) for _ in range(most))
        return tuple(dict.fromkeys(genome for genome in drawn if genome is not None)), False

    def _domains(self) -> list[_Domain]:
        return [(param.name, param.values, self.when.get(param.name)) for param in self.params]

    def _at(
        self, point: Sequence[int] | NDArray[np.int64], domains: list[_Domain], *, is_exact: bool = True
    ) -> Genome | None:
        """The valid genome at a point; with inactive params at any value where it need not be exact."""
        chosen: dict[str, Value] = {}
        for (name, values, is_active), index in zip(domains, point, strict=True):
            if is_active is None or is_active(chosen):
                chosen[name] = values[index]
            elif index and is_exact:
                # An inactive param must sit at its first value: otherwise genomes with inactive params
                # would be drawn once per value that does not matter.
                return None
        if not self._passes(chosen):
            return None
        return Genome(self.family, self.version, tuple(sorted(chosen.items())))

    def sample(self, rng: np.random.Generator, *, tries: int = 1_000_000) -> Genome:
        """A valid genome, uniform over the valid genomes: exactly where 1 in 20,000 raw points is one.

        Where fewer are, as in a family with many conditional params, one of 32 that were found without the
        inactive params: each as likely as its share of the raw product makes it, which is uniform but for
        the 32. UsageError when `tries` draws found none.
        """
        domains = self._domains()  # made once: a sample looks at thousands of points
        for point in self._points(rng, min(tries, _EXACT)):
            if (genome := self._at(point, domains)) is not None:
                return genome
        found = (self._at(point, domains, is_exact=False) for point in self._points(rng, min(tries, _SOUGHT)))
        pool = list(itertools.islice((genome for genome in found if genome is not None), _POOL))
        if not pool:
            raise UsageError(
                f"no valid genome of {self.family} found in {tries} draws: its checks leave no room."
            )
        logs = np.array([sum(math.log(len(self.param(name).values)) for name, _ in g.values) for g in pool])
        weights = np.exp(logs - logs.max())
        return pool[int(rng.choice(len(pool), p=weights / weights.sum()))]

    def _points(self, rng: np.random.Generator, count: int) -> Iterator[list[int]]:
        """Points of the raw product, drawn in batches."""
        sizes, batch = [len(p.values) for p in self.params], max(1, min(count, _BATCH))
        for _ in range(0, count, batch):
            yield from rng.integers(0, sizes, size=(batch, len(sizes))).tolist()

    def neighbours(self, genome: Genome) -> Iterator[Genome]:
        """Valid genomes one step away in one param."""
        values = genome.as_dict()
        for name, value in genome.values:
            for other in self.param(name).neighbours(value):
                near = self.genome({**values, name: other})
                if near != genome and self.is_valid(near):
                    yield near

    def __iter__(self) -> Iterator[Genome]:
        """Every valid genome once, in a fixed order (about 0.1 ms a point: mind the cardinality)."""
        seen: set[Genome] = set()
        for combination in itertools.product(*(p.values for p in self.params)):
            genome = self.genome(dict(zip(self.names, combination, strict=True)))
            if genome not in seen:
                seen.add(genome)
                if self.is_valid(genome):
                    yield genome
