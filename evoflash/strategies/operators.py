"""Finds mutation operators, tries them on parents, repairs the children and keeps each one's credit.

The operators are the files of mutations/ and of extension folders. Which is chosen is the strategy's
business. One that raises or returns no genome is left out from then on. Credit is how well an operator has
done, by kernel family and bottleneck.
"""

import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, ModuleType

import numpy as np

import evoflash.mutations
from evoflash import extensions as own_code
from evoflash.errors import UsageError
from evoflash.evaluation import Evaluation
from evoflash.extensions import with_extensions
from evoflash.paths import shipped_folder
from evoflash.space import Genome, SearchSpace

FULL_GAIN = math.log(1.10)  # a child faster by a tenth earns the whole reward
FASTER, SLOWER = 0.4, 0.02  # what any faster child earns, and any correct one
FIT = 2.0  # a prior counts so much more against a bottleneck that the operator is meant for
MEAN = 0.15  # the reward that a prior of one expects, near the mean of made-up and recorded spaces
PRIOR_WEIGHT = 6.0  # uses that the prior, or the family's figure, counts for
SHARPNESS = 2.0  # shares go with this power of the expected reward: 1 tells operators apart too little
FLOOR = 0.1  # of an equal share: what fails early may help late
CONTROL = 0.1  # share of the children whose operator is drawn uniformly: the control arm


@dataclass(frozen=True, slots=True)
class Trait:
    """What an operator's file says of it: initial weight, and the bottlenecks that it is meant for."""

    prior: float = 1.0
    bottlenecks: tuple[str, ...] = ()


@dataclass(slots=True)
class _Tally:
    uses: int = 0
    reward: float = 0.0

    def mean(self, before: float) -> float:
        """The mean reward, `before` counting for PRIOR_WEIGHT uses."""
        return (self.reward + PRIOR_WEIGHT * before) / (self.uses + PRIOR_WEIGHT)


def diagnosis(evaluation: Evaluation) -> str:
    """What holds a kernel back: spills where it has any, else the model's bound; empty when unknown."""
    return "spills" if any(build.spill_bytes for build in evaluation.builds) else evaluation.bound


def gain(parent_us: float, child_us: float) -> float:
    """The log of the speed-up of a child over its parent; negative when it is slower."""
    return math.log(parent_us / child_us)


def reward(evaluation: Evaluation, parent_us: float | None) -> float:
    """From 0 for a failure or a duplicate, over a little for a correct child, to 1 for a tenth faster."""
    us = evaluation.learnt_us
    if us is None or evaluation.duplicate_of:
        return 0.0
    if parent_us is None or not evaluation.is_rankable or evaluation.is_censored or us >= parent_us:
        return SLOWER
    return FASTER + (1 - FASTER) * min(1.0, gain(parent_us, us) / FULL_GAIN)


def is_control(seed: int, position: int) -> bool:
    """Whether the proposal at this position of a strategy's own sequence belongs to the control arm.

    It depends on nothing else, so that a report can tell the arms apart from a run's stored history.
    """
    return bool(np.random.default_rng([seed, position, 1]).random() < CONTROL)


@dataclass(slots=True)
class Credit:
    """The operators' tallies, and the shares of the proposals that these earn them."""

    traits: Mapping[str, Trait]
    _tallies: defaultdict[tuple[str, str, str], _Tally] = field(default_factory=lambda: defaultdict(_Tally))

    def learn(self, family: str, bound: str, operator: str, earned: float) -> None:
        """One child's reward; an operator whose file is gone is ignored."""
        if operator not in self.traits:
            return
        for level in {(family, ""), (family, bound)}:
            tally = self._tallies[*level, operator]
            tally.uses += 1
            tally.reward += earned

    def expected_reward(self, family: str, bound: str, operator: str) -> float:
        """The reward expected of the operator's next child of a parent of that family and bound."""
        trait = self.traits[operator]
        before = MEAN * trait.prior * (FIT if bound in trait.bottlenecks else 1.0)
        of_family = self._tally(family, "", operator).mean(before)
        return self._tally(family, bound, operator).mean(of_family) if bound else of_family

    def shares(self, family: str, bound: str, operators: Sequence[str]) -> np.ndarray:
        """The chance of each operator, by what is expected of it; they add up to 1."""
        expected = (
            np.array([self.expected_reward(family, bound, operator) for operator in operators]) ** SHARPNESS
        )
        floor = FLOOR / len(operators)
        shares: np.ndarray = floor + (1 - FLOOR) * expected / expected.sum()
        return shares

    def _tally(self, family: str, bound: str, operator: str) -> _Tally:
        return self._tallies.get((family, bound, operator)) or _Tally()


log = logging.getLogger(__name__)
REPAIRS = 3  # random steps towards validity


@dataclass(frozen=True, slots=True)
class Operator:
    """A file of mutations/: how many parents it takes, what it makes of them, and what it says of itself."""

    name: str
    arity: int
    mutate: Callable[[Sequence[Genome], SearchSpace, np.random.Generator], Genome | None]
    trait: Trait = field(default_factory=Trait)
    is_general: bool = False  # it knows no gene by name, and so nothing of the kernels that it changes
    words: frozenset[str] = frozenset()  # that its file mentions, genes among them
    file: str = "this operator"

    def child(self, parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
        """A valid genome that is none of its parents, repaired if need be; None when there is none."""
        child = self._try_mutate(parents, space, rng)
        for _ in range(REPAIRS):
            if child is None or space.is_valid(child):
                break
            child = _towards_valid(child, parents, space, rng)
        return None if child is None or child in parents or not space.is_valid(child) else child

    def _try_mutate(
        self, parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator
    ) -> Genome | None:
        """What `mutate` makes. Where it fails, one line says so, once in all, and it is not called again."""
        if self.file in _left_out:
            return None
        try:
            child = self.mutate(parents, space, rng)
            if child is not None:
                _check_is_genome(child, space)
        except Exception as error:
            _left_out.add(self.file)
            said = own_code.mistake(error, self.file)
            log.warning("%s; the operator %s is left out, the search goes on: mend it.", said, self.name)
            return None
        return child


_left_out: set[str] = set()  # files of operators that failed, for all strategies of this process


def _check_is_genome(child: object, space: SearchSpace) -> None:
    if not isinstance(child, Genome):
        raise TypeError(f"mutate returned {str(child)[:60]!r}, which is neither a genome nor None")
    if space.genome(child.as_dict()) != child:
        raise ValueError("mutate returned a genome of another space: make it by space.genome(values)")


def _towards_valid(
    genome: Genome, parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator
) -> Genome:
    near = [other for other in space.neighbours(genome) if other not in parents]
    if near:
        return near[int(rng.integers(len(near)))]
    name, value = genome.values[int(rng.integers(len(genome.values)))]
    others = space.param(name).neighbours(value) or (value,)
    return space.genome({**genome.as_dict(), name: others[int(rng.integers(len(others)))]})


def operators() -> tuple[Operator, ...]:
    """Every operator in mutations/ and the extension folders, by name. UsageError when a file is not one."""
    files = operator_files()
    return tuple(_operator(name, files[name]) for name in sorted(files))


def operator_files() -> dict[str, Path]:
    """The files of operators by name; loads none. EvoflashError where mutations/ is missing or empty."""
    paths = (
        path for folder in evoflash.mutations.__path__ for path in shipped_folder(Path(folder)).glob("*.py")
    )
    return with_extensions("mutations", {path.stem: path for path in paths})


def _operator(name: str, path: Path) -> Operator:
    module = own_code.load(path, f"evoflash.mutations.{name}")
    if not callable(getattr(module, "mutate", None)) or getattr(module, "PARENTS", 0) not in (1, 2):
        raise UsageError(
            f"{path} is no operator: give it PARENTS = 1 (or 2) and "
            "mutate(parents, space, rng), or remove it."
        )
    trait = Trait(_prior(module, path), _bottlenecks(module, path))
    general, words = bool(getattr(module, "GENERAL", False)), frozenset(_words(module))
    return Operator(name, module.PARENTS, module.mutate, trait, general, words, file=str(path))


def _prior(module: ModuleType, path: Path) -> float:
    prior = getattr(module, "PRIOR", 1.0)
    is_number = isinstance(prior, int | float) and not isinstance(prior, bool)
    if not is_number or not math.isfinite(prior) or prior <= 0:
        raise UsageError(f"{path}: PRIOR = {prior!r}: write a number above 0, such as MID of gene_edits.")
    return float(prior)


def _bottlenecks(module: ModuleType, path: Path) -> tuple[str, ...]:
    named = getattr(module, "BOTTLENECKS", ())
    if not isinstance(named, tuple | list) or not all(isinstance(each, str) for each in named):
        raise UsageError(f'{path}: BOTTLENECKS = {named!r}: write a tuple of words, such as ("dram",).')
    return tuple(named)


def operators_for(space: SearchSpace) -> tuple[Operator, ...]:
    """The operators that can find something to do in a space: general ones, and those that name a gene of it.

    Looked at once: a parent drawn for an operator whose genes are absent is a draw for nothing. One whose
    file has no words to judge by is taken.
    """
    genes = {param.name for param in space.params if len(param.values) > 1}
    return tuple(each for each in operators() if each.is_general or not each.words or each.words & genes)


def _words(module: ModuleType) -> set[str]:
    own = (value for name, value in vars(module).items() if not name.startswith("__"))
    return {word for value in own for word in _strings(value, module.__name__) if word.isidentifier()}


def _strings(value: object, module: str) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple | list | set | frozenset):
        for each in value:
            yield from _strings(each, module)
    elif isinstance(value, dict):
        yield from _strings((*value, *value.values()), module)
    elif isinstance(value, CodeType):
        yield from _strings(value.co_consts, module)
    elif callable(value) and getattr(value, "__module__", "") == module and hasattr(value, "__code__"):
        yield from _strings(value.__code__, module)
