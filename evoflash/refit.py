"""Refitting: after a move of structure, genes of tile and rings go as far as the space's checks then ask.

For moves that cost more than the two steps by which moves.py lets a gene give way. Knows values and checks
of a search space, not what a gene means.
"""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from evoflash.moves import Changes, changed
from evoflash.space import Genome, SearchSpace, Value


def refit(
    genome: Genome,
    space: SearchSpace,
    rng: np.random.Generator,
    options: Iterable[Changes | None],
    *,
    follows: Sequence[str] = (),
) -> Genome | None:
    """The nearest child of one of the options, tried in random order; None when none has a valid one."""
    possible = [changes for changes in options if changes]
    for index in rng.permutation(len(possible)):
        if (child := nearest(genome, space, possible[int(index)], follows)) is not None:
            return child
    return None


def nearest(genome: Genome, space: SearchSpace, changes: Changes, follows: Sequence[str]) -> Genome | None:
    """The valid child with the changes for which the genes of `follows` go the fewest steps in all.

    Among equals the gene named first goes furthest. None when no values of theirs make a valid genome, and
    where `changed` refuses the changes.
    """
    if not set(changes) <= set(space.names):
        return None
    ladders = [_by_distance(genome, space, name) for name in follows if name not in changes]
    for steps in sorted(itertools.product(*ladders), key=_cost):
        moved = {name: value for far, part in steps for name, value in part.items() if far}
        if (child := changed(genome, space, {**moved, **changes})) is not None:
            return child
    return None


def largest(genome: Genome, space: SearchSpace, changes: Changes, name: str) -> Genome | None:
    """The valid child with the changes and the largest value of the gene `name`; None when there is none.

    Without changes that is another genome than this one, if it stands at the largest value a smaller one.
    """
    if name not in genome.as_dict():
        return None
    children = (changed(genome, space, {**changes, name: v}) for v in reversed(space.param(name).values))
    return next((child for child in children if child is not None), None)


def one_of(children: Iterable[Genome | None], rng: np.random.Generator) -> Genome | None:
    """One of the children that there are, each equally likely; None when there are none."""
    found = [child for child in children if child is not None]
    return found[int(rng.integers(len(found)))] if found else None


def set_back(genome: Genome, **words: Value) -> dict[str, Value]:
    """The changes that put the named genes at these values; a gene that the genome lacks is passed over."""
    values = genome.as_dict()
    return {name: word for name, word in words.items() if values.get(name, word) != word}


def _cost(steps: Sequence[tuple[int, Changes]]) -> tuple[int, list[int]]:
    return sum(far for far, _ in steps), [-far for far, _ in steps]


def _by_distance(genome: Genome, space: SearchSpace, name: str) -> list[tuple[int, Changes]]:
    values = genome.as_dict()
    if name not in values:
        return [(0, {})]
    domain = space.param(name).values
    at = domain.index(values[name])
    return sorted(((abs(i - at), {name: v}) for i, v in enumerate(domain)), key=lambda step: step[0])
