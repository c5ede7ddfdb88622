"""Offers a model genomes to judge, those near the best and some far away. It judges none of them.

What takes long to find (whether a genome is valid takes some 0.1 ms) is kept for the next batch. All is a
function of the seed and of the outcomes that are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from evoflash.evaluation import Evaluation, Proposal
from evoflash.space import Genome, SearchSpace, Value, Values
from evoflash.strategies.operators import operators_for
from evoflash.strategies.populations import Population

TRIES = 4  # draws for each jump that is wanted, until the space is taken to have no more


class Neighbourhood:
    """Changes of one gene, of two, or of a block of them; no gene is known by its name."""

    def __init__(self, space: SearchSpace) -> None:
        self._space = space
        self._when: list[tuple[str, Callable[[Values], bool] | None]] = [
            (name, space.when.get(name)) for name in space.names
        ]
        self._values = {param.name: param.values for param in space.params}
        self._codes = {
            param.name: (column, {(type(value), value): at for at, value in enumerate(param.values)})
            for column, param in enumerate(space.params)
        }
        self._near: dict[Genome, tuple[Genome, ...]] = {}

    def one_gene(self, genome: Genome) -> tuple[Genome, ...]:
        """Every valid genome that gives one gene another value, near or far; kept, for an elite stays one."""
        if genome not in self._near:
            changes = ({name: value} for name, others in self._free(genome) for value in others)
            changed = (self._with_values(genome, change) for change in changes)
            self._near[genome] = tuple(other for other in changed if other is not None)
        return self._near[genome]

    def two_genes(self, genome: Genome, rng: np.random.Generator, *, count: int) -> Iterator[Genome]:
        """At most `count` valid genomes that give two genes other values; some may come twice.

        The pair of genes is drawn first and their values second, so that a pair of switches is drawn as often
        as a pair of genes of thirty values. Values of genes that a change switches on are drawn as well.
        """
        free, found = self._free(genome), 0
        if len(free) < 2:
            return
        absent = [name for name in self._space.names if name not in genome.as_dict()]
        for draw in rng.random((TRIES * count, 4 + len(absent))):
            first = int(draw[0] * len(free))
            second = (first + 1 + int(draw[1] * (len(free) - 1))) % len(free)
            change = {
                name: _at(self._values[name], part) for name, part in zip(absent, draw[4:], strict=True)
            }
            for (name, others), part in zip((free[first], free[second]), draw[2:4], strict=True):
                change[name] = _at(others, part)
            if (jumped := self._with_values(genome, change)) is not None:
                yield jumped
                found += 1
            if found == count:
                return

    def block(
        self, genome: Genome, names: Sequence[str], rng: np.random.Generator, *, draws: int
    ) -> Iterator[Genome]:
        """The valid genomes of so many draws that give all these genes any values; some may come twice."""
        for draw in rng.random((draws, len(names))):
            change = {name: _at(self._values[name], part) for name, part in zip(names, draw, strict=True)}
            if (changed := self._with_values(genome, change)) is not None:
                yield changed

    def _free(self, genome: Genome) -> list[tuple[str, tuple[Value, ...]]]:
        """The genes of a genome that have other values, and these."""
        free = []
        for name, value in genome.values:
            values = self._values[name]
            at = self._codes[name][1][type(value), value]
            if len(values) > 1:
                free.append((name, values[:at] + values[at + 1 :]))
        return free

    def _with_values(self, genome: Genome, change: Values) -> Genome | None:
        """The genome with these values; None where it is not valid, or the same.

        SearchSpace.genome would do, but its checks of each value take five times as long, and all values here
        are the space's own.
        """
        values = {**genome.as_dict(), **change}
        chosen: dict[str, Value] = {}
        for name, is_active in self._when:
            if is_active is None or is_active(chosen):
                chosen[name] = values[name] if name in values else self._values[name][0]
        changed = Genome(genome.family, genome.version, tuple(sorted(chosen.items())))
        return changed if changed != genome and self._space.is_valid(changed) else None


def _at(values: Sequence[Value], part: float) -> Value:
    """The value at a part from 0 to 1 of the way."""
    return values[int(part * len(values))]


PAIRS, CHILDREN, POINTS = 60, 15, 100  # offered: jumps from each elite, operators' children, raw points
TILES = 200  # draws of other tiles for each elite; two in three and more of them are not valid
WALKS = 15  # offered where raw points are hardly ever valid
REDRAWN = 40  # outcomes after which other jumps from the same elites are offered
DRAWS = 64  # of a jump or a walk until one is new
STEPS = 3  # jumps that make a walk


@dataclass(frozen=True, slots=True)
class BatchContext:
    """What the picks of one batch depend on."""

    told: Sequence[Evaluation]
    in_flight: tuple[Genome, ...]
    elites: tuple[Genome, ...]  # fastest first
    points: tuple[Genome, ...]  # the valid ones of some points of the raw product: none where they are rare
    taken: set[Genome]  # told, in flight or picked before
    rng: np.random.Generator


class Offers:
    """What is offered in one space, and single jumps in it that no model is asked about."""

    def __init__(self, space: SearchSpace, *, seed: int, seeds: tuple[Genome, ...]) -> None:
        self._space, self._seed, self._seeds = space, seed, seeds
        self._around = Neighbourhood(space)
        self._operators = operators_for(space)
        self._jumps: dict[tuple[Genome, int], tuple[Genome, ...]] = {}  # from what was an elite
        self._retiled: dict[Genome, tuple[Genome, ...]] = {}

    def all(self, known: BatchContext, elites: Population) -> Iterator[Proposal]:
        """Seeds that were not tried, neighbours of the elites, operators' children and raw points."""
        yield from (Proposal(seed, "seed") for seed in self._seeds)
        for elite in known.elites:
            parents = (elite.id,)
            yield from (Proposal(far, "two_genes", parents) for far in self._far(elite, known))
            yield from (Proposal(tile, "tile", parents) for tile in self._tiles(elite))
            yield from (Proposal(near, "one_gene", parents) for near in self._around.one_gene(elite))
        yield from self._children(known, elites)
        yield from map(Proposal, known.points)
        if len(known.points) < WALKS:
            walks = (self._walk(known) for _ in range(WALKS))
            yield from (walk for walk in walks if walk is not None)

    def _far(self, genome: Genome, known: BatchContext) -> tuple[Genome, ...]:
        """Jumps from a genome, kept for some time: to check whether one is valid takes some 0.1 ms."""
        drawing = len(known.told) // REDRAWN
        if (genome, drawing) not in self._jumps:
            rng = np.random.default_rng([self._seed, int(genome.id, 16), drawing])
            self._jumps[genome, drawing] = tuple(self._around.two_genes(genome, rng, count=PAIRS))
        return self._jumps[genome, drawing]

    def _tiles(self, genome: Genome) -> tuple[Genome, ...]:
        """The genome with other values of the block that its space declares first, its tile; kept."""
        if not self._space.blocks:
            return ()
        if genome not in self._retiled:
            rng = np.random.default_rng([self._seed, int(genome.id, 16), 3])
            others = self._around.block(genome, self._space.blocks[0], rng, draws=TILES)
            self._retiled[genome] = tuple(dict.fromkeys(others))
        return self._retiled[genome]

    def _children(self, known: BatchContext, elites: Population) -> Iterator[Proposal]:
        usable = list(self._operators)
        for _ in range(CHILDREN):
            if not usable:
                return
            operator = usable[int(known.rng.integers(len(usable)))]
            parents = [elite.genome for elite in elites.parents(operator.arity, known.rng)]
            is_whole = len(parents) == operator.arity
            child = operator.child(parents, self._space, known.rng) if is_whole else None
            if child is None:
                usable.remove(operator)  # its genes are absent, or at their ends
            else:
                yield Proposal(child, operator.name, tuple(parent.id for parent in parents))

    def points(self, rng: np.random.Generator) -> Iterator[Genome]:
        points = (self._space.draw(rng) for _ in range(POINTS))
        return (point for point in points if point is not None and self._space.is_valid(point))

    def jump(self, known: BatchContext) -> Proposal | None:
        """Two genes of an elite changed, whatever the model says."""
        for _ in range(DRAWS):
            start = known.elites[int(known.rng.integers(len(known.elites)))]
            for far in self._around.two_genes(start, known.rng, count=1):
                if far not in known.taken:
                    return Proposal(far, "two_genes", (start.id,))
        return None

    def immigrant(self, known: BatchContext) -> Proposal | None:
        """A random genome; where valid ones are rare, several jumps away from one that was told.

        A uniform sample of flash_wgmma takes 0.2 s, ten times what a proposal may.
        """
        point = next((point for point in known.points if point not in known.taken), None)
        return self._walk(known) if point is None else Proposal(point)

    def _walk(self, known: BatchContext) -> Proposal | None:
        for _ in range(DRAWS):
            start = at = known.told[int(known.rng.integers(len(known.told)))].genome
            for _ in range(STEPS):
                at = next(self._around.two_genes(at, known.rng, count=1), at)
            if at not in known.taken:
                return Proposal(at, "walk", (start.id,))
        return None
