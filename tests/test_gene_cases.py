"""Packs of values: genomes in which the families' tests emulate several values at once."""

import gene_cases
import pytest

from evoflash.space import Check, Param, SearchSpace

SPACE = SearchSpace(
    "packed",
    (Param("a", (1, 2, 3)), Param("b", (1, 2)), Param("deep", (False, True)), Param("depth", (1, 2))),
    checks=(Check("not_both", lambda values: not (values["a"] == 3 and values["b"] == 2)),),
    when={"depth": lambda values: values["deep"] is True},
)
ALONE = {
    (param.name, value): SPACE.genome({"deep": True, param.name: value})
    for param in SPACE.params
    for value in param.values
}


@pytest.mark.parametrize("most", [1, 2, 8])
def test_packs_are_valid_and_hold_every_value_once(most: int) -> None:
    packs = gene_cases.packs(ALONE, SPACE.genome({}), SPACE, most=most)

    assert sorted(str(case) for _, cases in packs for case in cases) == sorted(map(str, ALONE))
    assert all(SPACE.is_valid(genome) and 1 <= len(cases) <= most for genome, cases in packs)
    assert all(genome.as_dict()[name] is value for genome, cases in packs for name, value in cases)


def test_a_few_packs_hold_what_fits_together() -> None:
    packs = gene_cases.packs(ALONE, SPACE.genome({}), SPACE)

    assert len(packs) == 4  # one for each value of a, and one where depth is not active
    assert not any({("a", 3), ("b", 2)} <= set(cases) for _, cases in packs)


def test_a_value_whose_genome_lacks_it_is_told() -> None:
    with pytest.raises(AssertionError, match=r"depth.*not active here"):
        gene_cases.packs({("depth", 2): SPACE.genome({})}, SPACE.genome({}), SPACE)
