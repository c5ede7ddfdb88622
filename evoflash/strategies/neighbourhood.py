"""Neighbourhood finds the valid genomes around one: changes of a gene, of two, or of how the work is divided.

Which of them is worth a try is the strategy's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from evoflash.space import Genome, SearchSpace, Value, Values

TRIES = 4  # draws for each jump that is wanted, until the space is taken to have no more
MOST_GENES = 4  # of a partition that are drawn anew at a time: of more, hardly any are valid
PARTITIONS = 2500  # looked for at most: the Hopper family's spaces have 1,200 to 3,700


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

    def some_of_block(
        self, genome: Genome, names: Sequence[str], rng: np.random.Generator, *, draws: int
    ) -> Iterator[Genome]:
        """As `block`, with two to MOST_GENES of the genes drawn anew at a time, and the others kept."""
        counts = rng.integers(2, 1 + MOST_GENES, size=draws)
        for order, count in zip(rng.random((draws, len(names))).argsort(axis=1), counts, strict=True):
            yield from self.block(genome, [names[at] for at in order[:count]], rng, draws=1)

    def with_block(self, genome: Genome, names: Sequence[str], other: Genome) -> Genome | None:
        """The genome with the other's values of these genes; None where it is not valid, or the same."""
        values = other.as_dict()
        return self._with_values(genome, {name: values[name] for name in names if name in values})

    def reachable(
        self, starts: Sequence[Genome], names: Sequence[str], rng: np.random.Generator
    ) -> tuple[Genome, ...]:
        """A valid genome for each way to set these genes, from the starts by one change after another.

        All that can be reached, or PARTITIONS of them in random order: nothing near a start comes first.
        """
        found = {values_of(start, names): start for start in starts}
        open_ends = list(found.values())
        places = {name: place for place, name in enumerate(names)}
        while open_ends and len(found) < PARTITIONS:
            at = open_ends.pop(int(rng.integers(len(open_ends))))
            own = values_of(at, names)
            for name, others in self._free(at):
                if (place := places.get(name)) is None:
                    continue
                for value in others:
                    if (*own[:place], value, *own[place + 1 :]) in found:
                        continue  # known without asking whether it is valid
                    changed = self._with_values(at, {name: value})
                    if changed is not None and (values := values_of(changed, names)) not in found:
                        found[values] = changed
                        open_ends.append(changed)
        return tuple(found.values())

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


def values_of(genome: Genome, genes: Sequence[str]) -> tuple[Value | None, ...]:
    """Its values of these genes, None where it has none."""
    values = genome.as_dict()
    return tuple(values.get(gene) for gene in genes)
