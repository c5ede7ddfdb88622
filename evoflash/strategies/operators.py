"""Mutation operators as strategies use them: found in mutations/, tried on parents, and repaired.

Chooses none; that is the strategy's business.
"""

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType

import numpy as np

import evoflash.mutations
from evoflash.errors import UsageError
from evoflash.space import Genome, SearchSpace
from evoflash.strategies.operator_credit import Trait

REPAIRS = 3  # random steps towards validity


@dataclass(frozen=True, slots=True)
class Operator:
    """A file of mutations/: how many parents it takes, what it makes of them, and what it says of itself."""

    name: str
    arity: int
    mutate: Callable[[Sequence[Genome], SearchSpace, np.random.Generator], Genome | None]
    trait: Trait = field(default_factory=Trait)
    is_general: bool = False  # it knows no gene by name, and so nothing of the kernels that it changes

    def child(self, parents: Sequence[Genome], space: SearchSpace, rng: np.random.Generator) -> Genome | None:
        """A valid genome that is none of its parents, repaired if need be; None when there is none."""
        child = self.mutate(parents, space, rng)
        for _ in range(REPAIRS):
            if child is None or space.is_valid(child):
                break
            child = _towards_valid(child, parents, space, rng)
        return None if child is None or child in parents or not space.is_valid(child) else child


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
    """Every operator in mutations/, by name. UsageError when a file there is not one."""
    found = []
    for info in sorted(pkgutil.iter_modules(evoflash.mutations.__path__), key=lambda info: info.name):
        module = importlib.import_module(f"evoflash.mutations.{info.name}")
        if not callable(getattr(module, "mutate", None)) or getattr(module, "PARENTS", 0) not in (1, 2):
            raise UsageError(
                f"mutations/{info.name}.py is no operator: give it PARENTS = 1 (or 2) and "
                "mutate(parents, space, rng), or remove it."
            )
        trait = Trait(getattr(module, "PRIOR", 1.0), tuple(getattr(module, "BOTTLENECKS", ())))
        general = bool(getattr(module, "GENERAL", False))
        found.append(Operator(info.name, module.PARENTS, module.mutate, trait, general))
    return tuple(found)


def operators_for(space: SearchSpace) -> tuple[Operator, ...]:
    """The operators that can find something to do in a space: general ones, and those that name a gene of it.

    Looked at once: a parent drawn for an operator whose genes are absent is a draw for nothing.
    """
    genes = {param.name for param in space.params if len(param.values) > 1}
    found = (operator for operator in operators() if operator.is_general or _may_name(operator, genes))
    return tuple(found)


def _may_name(operator: Operator, genes: set[str]) -> bool:
    """Whether a word of the operator's file is one of the genes, or it has no words to judge by."""
    module = sys.modules[operator.mutate.__module__]
    own = (value for name, value in vars(module).items() if not name.startswith("__"))
    words = {word for value in own for word in _strings(value, module.__name__) if word.isidentifier()}
    return not words or bool(words & genes)


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
