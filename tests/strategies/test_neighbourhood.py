"""Neighbours are valid, canonical and as far away as they say."""

from collections import Counter

import numpy as np
import pytest
from strategy_cases import SPACE, TINY

from evoflash.space import Genome, Param, SearchSpace
from evoflash.strategies.neighbourhood import Neighbourhood, values_of


def changed(one: Genome, other: Genome) -> set[str]:
    """The genes that both have, with different values."""
    ours, theirs = one.as_dict(), other.as_dict()
    return {name for name in ours.keys() & theirs.keys() if ours[name] != theirs[name]}


def drawn(space: SearchSpace, count: int = 20) -> list[Genome]:
    rng = np.random.default_rng(0)
    return [space.sample(rng) for _ in range(count)]


@pytest.mark.parametrize("genome", drawn(SPACE), ids=lambda genome: genome.id)
def test_one_gene_is_every_valid_change_of_one_gene(genome: Genome) -> None:
    values = genome.as_dict()
    expected = {
        SPACE.genome({**values, name: value}) for name in values for value in SPACE.param(name).values
    }

    near = Neighbourhood(SPACE).one_gene(genome)

    assert set(near) == {other for other in expected - {genome} if SPACE.is_valid(other)}
    assert len(near) == len(set(near))


@pytest.mark.parametrize("genome", drawn(SPACE), ids=lambda genome: genome.id)
def test_two_genes_changes_two_and_what_they_switch_on(genome: Genome) -> None:
    far = list(Neighbourhood(SPACE).two_genes(genome, np.random.default_rng(1), count=40))

    assert len(far) == 40
    assert all(SPACE.is_valid(other) and SPACE.genome(other.as_dict()) == other for other in far)
    assert {len(changed(genome, other)) for other in far} <= {1, 2}  # one of the pair may be switched off


def test_genes_that_a_change_switches_on_get_every_value() -> None:
    off = TINY.genome({"a": 2, "deep": False})
    rng = np.random.default_rng(0)

    far = Counter(Neighbourhood(TINY).two_genes(off, rng, count=100))

    assert {other.as_dict()["depth"] for other in far} == {1, 2}


def test_the_pair_is_drawn_before_its_values() -> None:
    many = SearchSpace("many", (Param("a", tuple(range(50))), Param("b", (0, 1)), Param("c", (0, 1))))
    genome = next(iter(many))
    far = Neighbourhood(many).two_genes(genome, np.random.default_rng(0), count=600)

    pairs = Counter(frozenset(changed(genome, other)) for other in far)

    assert len(pairs) == 3
    assert min(pairs.values()) > 150


def test_a_space_of_one_gene_has_no_pairs() -> None:
    narrow = SearchSpace("narrow", (Param("a", (1, 2, 3)), Param("b", (1,))))
    genome = next(iter(narrow))

    assert list(Neighbourhood(narrow).two_genes(genome, np.random.default_rng(0), count=5)) == []
    assert len(Neighbourhood(narrow).one_gene(genome)) == 2


def test_a_block_is_drawn_anew_and_all_else_stays() -> None:
    start, tile = SPACE.genome({}), SPACE.blocks[0]

    found = list(Neighbourhood(SPACE).block(start, tile, np.random.default_rng(0), draws=100))

    assert len({tuple(genome.as_dict()[name] for name in tile) for genome in found}) > 20
    for genome in found:
        assert SPACE.is_valid(genome)
        assert {name for name, value in start.values if genome.as_dict()[name] != value} <= set(tile)


def test_ways_to_set_a_block_are_reached_by_valid_steps_and_each_is_found_once() -> None:
    start, tile = SPACE.genome({}), SPACE.blocks[0]
    rng = np.random.default_rng(0)

    found = Neighbourhood(SPACE).reachable((start,), tile, rng)

    ways = {values_of(genome, tile) for genome in found}
    drawn_ways = Neighbourhood(SPACE).block(start, tile, rng, draws=400)
    assert len(ways) == len(found)
    assert {values_of(genome, tile) for genome in drawn_ways} <= ways
    for genome in found:
        assert SPACE.is_valid(genome)
        assert not changed(start, genome) - {*tile}


def test_part_of_a_block_is_drawn_anew_and_another_genomes_block_is_taken_over() -> None:
    around, start, tile = Neighbourhood(SPACE), SPACE.genome({}), SPACE.blocks[0]

    some = list(around.some_of_block(start, tile, np.random.default_rng(0), draws=60))

    assert some
    assert all(changed(start, genome) <= {*tile} and SPACE.is_valid(genome) for genome in some)
    taken = [around.with_block(genome, tile, some[0]) for genome in drawn(SPACE, 10)]
    assert any(taken)
    assert all(values_of(genome, tile) == values_of(some[0], tile) for genome in taken if genome)
    assert around.with_block(some[0], tile, some[0]) is None
