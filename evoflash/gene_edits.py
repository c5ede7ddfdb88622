"""What mutation operators are made of: steps and switches of genes, and repair of what they break.

An operator names the genes that it moves, and slack genes: those that may move too where the first ones alone
would break a check. Knows values and checks of a search space, not what a gene means; which operator is tried
when is the strategy's business.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from evoflash.space import Genome, SearchSpace, Value, is_among

Changes = Mapping[str, Value]
Slack = Sequence[tuple[str, int]]  # slack genes, each with the direction in which it may move

# Initial weights: how often the move was seen to pay in published kernels or in our own measurements.
LOW, MID, HIGH, VERY_HIGH = 0.5, 1.0, 2.0, 4.0

# The slack genes of a move that needs shared memory or registers; the one named first moves first. Genes of
# several families stand side by side: those that a genome does not have are passed over.
SMEM: Slack = (("ctas_per_sm", -1), ("v_stages", -1), ("k_stages", -1), ("stages", -1), ("block_n", -1))
REGISTERS: Slack = (
    ("ctas_per_sm", -1),
    ("block_n", -1),
    ("batch", -1),
    ("rows_per_lane", -1),
    ("block_m", -1),
    ("warps", -1),
)

_MOST_STEPS = 2  # of one slack gene
_MOST_TOGETHER = 2  # of all of them


def step(genome: Genome, space: SearchSpace, name: str, way: int) -> Value | None:
    """The gene's value `way` places on; None past the end of its domain, or when the genome lacks it."""
    values = genome.as_dict()
    if name not in values:
        return None
    domain = space.param(name).values
    at = domain.index(values[name]) + way
    return domain[at] if 0 <= at < len(domain) else None


def shift(genome: Genome, space: SearchSpace, **ways: int) -> Changes | None:
    """All the named genes by so many places; None when one of them cannot move so far."""
    moved = {name: step(genome, space, name, way) for name, way in ways.items()}
    changes = {name: value for name, value in moved.items() if value is not None}
    return changes if len(changes) == len(ways) else None


def switch(genome: Genome, space: SearchSpace, name: str, *words: Value) -> list[Changes]:
    """One change for each of `words` that the gene can take and does not have; any value if none is named."""
    values = genome.as_dict()
    if name not in values:
        return []
    allowed = [value for value in space.param(name).values if not words or is_among(value, words)]
    return [{name: value} for value in allowed if not is_among(value, [values[name]])]


def draw_new_genes(genome: Genome, space: SearchSpace, rng: np.random.Generator, changes: Changes) -> Changes:
    """The changes, and at random a value for each gene that they bring into play: no parent has tried any."""
    own = genome.as_dict()
    fresh = space.genome({**own, **changes}).as_dict().keys() - own.keys() - changes.keys()
    domains = [(param.name, param.values) for param in space.params if param.name in fresh]
    return {**changes, **{name: values[int(rng.integers(len(values)))] for name, values in domains}}


def climb(genome: Genome, space: SearchSpace, name: str, *order: str) -> list[Changes]:
    """One change for each word that comes after the gene's own in `order`; none when its own is not there."""
    own = genome.as_dict().get(name)
    return switch(genome, space, name, *order[order.index(own) + 1 :]) if own in order[:-1] else []


def attempt(
    genome: Genome,
    space: SearchSpace,
    rng: np.random.Generator,
    options: Iterable[Changes | None],
    *,
    slack: Slack = (),
) -> Genome | None:
    """The child of one of the options, tried in random order; None when none leads to a valid genome."""
    return _first_child(rng, options, partial(apply_changes, genome, space, slack=slack))


def _first_child(
    rng: np.random.Generator,
    options: Iterable[Changes | None],
    child_with: Callable[[Changes], Genome | None],
) -> Genome | None:
    possible = [changes for changes in options if changes]
    children = (child_with(possible[int(index)]) for index in rng.permutation(len(possible)))
    return next((child for child in children if child is not None), None)


def apply_changes(
    genome: Genome, space: SearchSpace, changes: Changes, *, slack: Slack = ()
) -> Genome | None:
    """The genome with the changes; where they break a check, the slack genes move as few steps as it takes.

    None when that is not enough, when the space knows no such gene or value, and when a change has no effect
    because its gene is inactive.
    """
    if not all(_can_take(space, name, value) for name, value in changes.items()):
        return None
    wanted = space.genome({**genome.as_dict(), **changes})
    if wanted == genome or not _has(wanted, changes):
        return None
    if space.is_valid(wanted):
        return wanted
    for yielded in _yielding(wanted, space, [gene for gene in slack if gene[0] not in changes]):
        child = space.genome({**wanted.as_dict(), **yielded})
        if _has(child, changes) and space.is_valid(child):
            return child
    return None


def _yielding(genome: Genome, space: SearchSpace, slack: Slack) -> list[Changes]:
    """How the slack genes could move, fewest steps first; among equals, those named first move first."""
    ladders = [[{}, *_ladder(genome, space, name, way)] for name, way in slack]
    counts = itertools.product(*(range(len(ladder)) for ladder in ladders))
    few = sorted((c for c in counts if 0 < sum(c) <= _MOST_TOGETHER), key=lambda c: (sum(c), [-n for n in c]))
    return [_merge(ladder[n] for ladder, n in zip(ladders, c, strict=True)) for c in few]


def _ladder(genome: Genome, space: SearchSpace, name: str, way: int) -> list[Changes]:
    steps = (shift(genome, space, **{name: way * count}) for count in range(1, _MOST_STEPS + 1))
    return [changes for changes in steps if changes]


def _merge(parts: Iterable[Changes]) -> Changes:
    return {name: value for part in parts for name, value in part.items()}


def _has(genome: Genome, changes: Changes) -> bool:
    values = genome.as_dict()
    return all(is_among(values.get(name), [value]) for name, value in changes.items())


def _can_take(space: SearchSpace, name: str, value: Value) -> bool:
    return name in space.names and is_among(value, space.param(name).values)


def refit(
    genome: Genome,
    space: SearchSpace,
    rng: np.random.Generator,
    options: Iterable[Changes | None],
    *,
    slack: Sequence[str] = (),
) -> Genome | None:
    """The nearest child of one of the options, tried in random order; None when none has a valid one."""
    return _first_child(rng, options, partial(nearest, genome, space, slack=slack))


def nearest(genome: Genome, space: SearchSpace, changes: Changes, slack: Sequence[str]) -> Genome | None:
    """The valid child with the changes for which the slack genes move the fewest steps in all.

    Among equals the gene named first moves furthest. None when no values of theirs make a valid genome, and
    where `apply_changes` refuses the changes.
    """
    if not set(changes) <= set(space.names):
        return None
    ladders = [_by_distance(genome, space, name) for name in slack if name not in changes]
    for steps in sorted(itertools.product(*ladders), key=_cost):
        moved = {name: value for far, part in steps for name, value in part.items() if far}
        if (child := apply_changes(genome, space, {**moved, **changes})) is not None:
            return child
    return None


def largest(genome: Genome, space: SearchSpace, changes: Changes, name: str) -> Genome | None:
    """The valid child with the changes and the largest value of the gene `name`; None when there is none.

    Without changes that is another genome than this one, if it stands at the largest value a smaller one.
    """
    if name not in genome.as_dict():
        return None
    children = (
        apply_changes(genome, space, {**changes, name: v}) for v in reversed(space.param(name).values)
    )
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


# Users' own operators import these names of earlier releases; they stay for one release.
changed, drawn = apply_changes, draw_new_genes
