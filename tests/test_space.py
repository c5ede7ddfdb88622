"""Genomes are canonical, samples uniform over the valid ones, neighbours valid; on made-up spaces."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import table_of_cases

from evoflash.errors import UsageError
from evoflash.space import Check, Genome, Param, SearchSpace

TINY = SearchSpace(
    family="tiny",
    params=(
        Param("tile", (16, 32, 64)),
        Param("lazy", (False, True)),
        Param("tau", (4, 8)),
        Param("layout", ("pad", "xor", "none")),
    ),
    checks=(
        Check("fits", lambda v: v["tile"] < 64 or v["layout"] != "pad"),
        Check("gentle", lambda v: v.get("tau", 0) * v["tile"] < 512),
    ),
    when={"tau": lambda v: v["lazy"]},
)


@st.composite
def spaces(draw: st.DrawFn) -> SearchSpace:
    """Up to four small params; each but the first may depend on the one before; one check on the sum."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    params = tuple(Param(f"p{i}", tuple(range(size))) for i, size in enumerate(sizes))
    dependent = [i for i in range(1, len(sizes)) if draw(st.booleans())]
    when = {f"p{i}": (lambda v, before=f"p{i - 1}": v.get(before, 0) > 0) for i in dependent}
    limit = draw(st.integers(0, 8))
    return SearchSpace(
        "made_up", params, checks=(Check("sum", lambda v: sum(v.values()) <= limit),), when=when
    )


@given(spaces(), st.randoms(use_true_random=False))
def test_a_genome_is_the_genome_of_its_own_values_in_any_order(space: SearchSpace, random) -> None:
    genome = space.sample(np.random.default_rng(random.getrandbits(32)))
    values = list(genome.values)
    random.shuffle(values)
    again = space.genome(dict(values))
    assert again == genome
    assert again.id == genome.id


@given(spaces())
def test_iteration_gives_every_valid_genome_once(space: SearchSpace) -> None:
    product = itertools.product(*(param.values for param in space.params))
    raw = {space.genome(dict(zip(space.names, values, strict=True))) for values in product}
    listed = list(space)
    assert len(listed) == len(set(listed))
    assert set(listed) == {genome for genome in raw if not space.violations(genome)}


@given(spaces(), st.integers(0, 2**32))
def test_samples_are_valid(space: SearchSpace, seed: int) -> None:
    assert space.sample(np.random.default_rng(seed)) in set(space)


@settings(deadline=None)
@given(spaces())
def test_neighbours_are_valid_and_one_step_away(space: SearchSpace) -> None:
    listed = set(space)
    for genome in listed:
        values = genome.as_dict()
        for near in space.neighbours(genome):
            assert near in listed - {genome}
            both = values.keys() & near.as_dict().keys()
            moved = {name for name in both if values[name] != near.as_dict()[name]}
            assert len(moved) == 1
            assert all(abs(values[name] - near.as_dict()[name]) == 1 for name in moved)


def test_samples_are_uniform_over_the_genomes_not_over_the_raw_values() -> None:
    rng = np.random.default_rng(0)
    drawn = Counter(TINY.sample(rng) for _ in range(6000))
    expected = 6000 / len(set(TINY))
    chi_square = sum((drawn[genome] - expected) ** 2 / expected for genome in TINY)
    freedom = len(set(TINY)) - 1
    assert chi_square < freedom + 5 * np.sqrt(2 * freedom)


def test_samples_are_uniform_where_next_to_no_point_is_a_genome(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five params that nothing switches on: 1 raw point in 100,000 is a genome, of 51."""
    rare = SearchSpace(
        "rare",
        (
            Param("kind", ("plain", "wide")),
            Param("width", tuple(range(50))),
            *(Param(f"off{i}", tuple(range(10))) for i in range(5)),
        ),
        when={"width": lambda v: v["kind"] == "wide"} | {f"off{i}": lambda _: False for i in range(5)},
    )
    monkeypatch.setattr("evoflash.space._EXACT", 1)
    rng = np.random.default_rng(3)

    drawn = Counter(rare.sample(rng).as_dict().get("width", "plain") for _ in range(2000))

    assert 15 < drawn["plain"] < 75  # 39 of 2000 are to be expected; every second of those looked at is plain
    assert len(drawn) == 51
    assert max(drawn.values()) < 100


def test_the_same_stream_samples_the_same_genomes() -> None:
    one, two = np.random.default_rng(3), np.random.default_rng(3)
    assert [TINY.sample(one) for _ in range(20)] == [TINY.sample(two) for _ in range(20)]


def test_an_inactive_gene_is_absent() -> None:
    genome = TINY.genome({"tile": 16, "lazy": False, "tau": 8, "layout": "xor"})
    assert "tau" not in genome.as_dict()
    assert genome == TINY.genome({"tile": 16, "lazy": False, "tau": 4, "layout": "xor"})


def test_a_missing_gene_takes_its_first_value() -> None:
    assert TINY.genome({"lazy": True}).as_dict() == {"tile": 16, "lazy": True, "tau": 4, "layout": "pad"}


def test_an_id_is_the_same_on_every_machine() -> None:
    assert Genome("flash_mma", 1, (("block_n", 64), ("layout", "xor128"))).id == "140c377da4fdfdb7"


def test_family_and_version_are_part_of_the_id() -> None:
    values = (("a", 1),)
    assert len({Genome(f, v, values).id for f, v in (("x", 1), ("x", 2), ("y", 1))}) == 3


def test_true_is_not_one() -> None:
    assert Genome("x", 1, (("a", True),)).id != Genome("x", 1, (("a", 1),)).id
    with pytest.raises(UsageError, match="lazy=1 is not a value: use one of False, True"):
        TINY.genome({"lazy": 1})


def test_an_unknown_gene_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"no param 'block'\. It has tile, lazy, tau, layout"):
        TINY.genome({"block": 16})


def test_a_value_outside_its_domain_is_answered_with_the_domain() -> None:
    with pytest.raises(UsageError, match=r"tiny\.tile=48 is not a value: use one of 16, 32, 64"):
        TINY.genome({"tile": 48})


def test_an_inactive_gene_is_still_held_to_its_domain() -> None:
    with pytest.raises(UsageError, match=r"tiny\.tau=5"):
        TINY.genome({"lazy": False, "tau": 5})


def test_violations_name_the_checks_that_fail() -> None:
    both = TINY.genome({"tile": 64, "lazy": True, "tau": 8, "layout": "pad"})
    assert TINY.violations(both) == ("fits", "gentle")
    assert not TINY.is_valid(both)
    assert TINY.violations(TINY.genome({})) == ()


def test_a_space_without_room_says_so() -> None:
    space = SearchSpace("full", (Param("a", (1, 2)),), checks=(Check("never", lambda v: False),))
    with pytest.raises(UsageError, match="no valid genome of full found in 50 draws"):
        space.sample(np.random.default_rng(0), tries=50)


def test_cardinality_counts_the_raw_product() -> None:
    assert TINY.cardinality == 3 * 2 * 2 * 3


@table_of_cases(tuples=True)
def test_a_number_has_adjacent_neighbours_and_a_word_all_others(values, value, expected) -> None:
    assert Param("p", values).neighbours(value) == expected
