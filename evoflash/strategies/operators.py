"""Mutation operators as strategies use them: found in mutations/, tried on parents, and repaired.

Chooses none; that is the strategy's business. One that raises or returns no genome is left out from then on.
"""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, ModuleType

import numpy as np

import evoflash.mutations
from evoflash.errors import UsageError
from evoflash.extensions import own_code
from evoflash.extensions.folders import extended
from evoflash.paths import shipped
from evoflash.space import Genome, SearchSpace
from evoflash.strategies.operator_credit import Trait

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
        child = self._mutated(parents, space, rng)
        for _ in range(REPAIRS):
            if child is None or space.is_valid(child):
                break
            child = _towards_valid(child, parents, space, rng)
        return None if child is None or child in parents or not space.is_valid(child) else child

    def _mutated(
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
    paths = (path for folder in evoflash.mutations.__path__ for path in shipped(Path(folder)).glob("*.py"))
    return extended("mutations", {path.stem: path for path in paths})


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
