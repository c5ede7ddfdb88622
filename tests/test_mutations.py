"""Every operator found in mutations/ keeps the same promises; then what each one is for."""

import numpy as np
import pytest
from strategy_cases import SPACE, TINY

import evoflash.mutations
from evoflash.errors import UsageError
from evoflash.space import Check, Genome, Param, SearchSpace
from evoflash.strategies.evolution import Operator, operators

OPERATORS = {operator.name: operator for operator in operators()}
FIXED = SearchSpace("fixed", (Param("a", (1,)), Param("b", ("x",))))
NUMBERS = SearchSpace("numbers", (Param("x", tuple(range(9))), Param("y", (1, 2, 4, 8))))
every_operator = pytest.mark.parametrize("operator", OPERATORS.values(), ids=list(OPERATORS))


def parents_of(operator: Operator, space: SearchSpace, rng: np.random.Generator) -> list[Genome]:
    return [space.sample(rng) for _ in range(operator.arity)]


def changed(parent: Genome, child: Genome) -> set[str]:
    before, after = parent.as_dict(), child.as_dict()
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def children(name: str, parent: Genome, count: int = 40, space: SearchSpace = SPACE) -> list[Genome]:
    """What the bare operator makes of one parent, before any repair."""
    rng = np.random.default_rng(1)
    made = (OPERATORS[name].mutate([parent], space, rng) for _ in range(count))
    return [child for child in made if child is not None and child != parent]


PARENT = SPACE.genome(
    {
        "warps": 4, "rows_per_warp": 16, "block_n": 64, "waits": "separate", "k_stages": 2, "v_stages": 2,
        "layout": "xor128", "q_home": "registers", "rescale": "online", "epilogue": "direct",
        "ctas_per_sm": 2,
    }
)  # fmt: skip


@every_operator
@pytest.mark.parametrize("space", [SPACE, TINY, NUMBERS, FIXED], ids=lambda space: space.family)
def test_a_child_is_valid_and_none_of_its_parents(operator: Operator, space: SearchSpace) -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        parents = parents_of(operator, space, rng)
        child = operator.child(parents, space, rng)
        assert child is None or (space.is_valid(child) and space.genome(child.as_dict()) == child)
        assert child not in parents


@every_operator
def test_an_operator_finds_something_to_do_on_a_kernel_space(operator: Operator) -> None:
    rng = np.random.default_rng(0)
    made = [operator.child(parents_of(operator, SPACE, rng), SPACE, rng) for _ in range(60)]
    assert sum(child is not None for child in made) > 40


@every_operator
def test_an_operator_has_nothing_to_do_on_a_space_without_a_choice(operator: Operator) -> None:
    only = next(iter(FIXED))
    assert operator.mutate([only] * operator.arity, FIXED, np.random.default_rng(0)) is None


@every_operator
def test_the_same_random_stream_gives_the_same_child(operator: Operator) -> None:
    parents = parents_of(operator, SPACE, np.random.default_rng(5))
    twice = [operator.child(parents, SPACE, np.random.default_rng(9)) for _ in range(2)]
    assert twice[0] == twice[1]


@every_operator
def test_an_operator_says_when_it_helps(operator: Operator) -> None:
    text = __import__(operator.mutate.__module__, fromlist=["mutate"]).__doc__
    assert all(word in text for word in ("Needs:", "Expected:"))


def test_a_child_that_breaks_a_check_is_repaired() -> None:
    steep = SearchSpace(
        "steep",
        (Param("x", (0, 1, 2, 3)), Param("y", (0, 1, 2, 3))),
        checks=(Check("sum", lambda v: v["x"] + v["y"] <= 3),),
    )
    breaks = Operator("breaks", 1, lambda parents, space, rng: space.genome({"x": 3, "y": 3}))
    parent = steep.genome({"x": 0, "y": 0})
    made = [breaks.child([parent], steep, np.random.default_rng(seed)) for seed in range(20)]
    assert any(made)
    assert all(child is None or steep.is_valid(child) for child in made)


def test_a_file_that_is_no_operator_is_named(tmp_path, monkeypatch) -> None:
    (tmp_path / "half_done.py").write_text("PARENTS = 1\n")
    monkeypatch.setattr(evoflash.mutations, "__path__", [str(tmp_path)])
    with pytest.raises(UsageError, match=r"mutations/half_done\.py is no operator"):
        operators()


def test_an_operator_is_added_by_adding_a_file(tmp_path, monkeypatch) -> None:
    (tmp_path / "mine.py").write_text("PARENTS = 2\ndef mutate(parents, space, rng): return parents[0]\n")
    monkeypatch.setattr(evoflash.mutations, "__path__", [*evoflash.mutations.__path__, str(tmp_path)])
    assert {operator.name for operator in operators()} == {*OPERATORS, "mine"}


def test_nudge_moves_one_number_to_a_neighbour() -> None:
    parent = next(iter(NUMBERS))
    assert {tuple(child.as_dict().values()) for child in children("nudge", parent, space=NUMBERS)} == {
        (1, 1),
        (0, 2),
    }


def test_reset_reaches_every_other_value_of_a_gene() -> None:
    reached = {child.as_dict()["block_n"] for child in children("reset", PARENT, 600)}
    assert reached == set(SPACE.param("block_n").values)


def test_retile_changes_two_tile_genes_and_nothing_else() -> None:
    moves = [changed(PARENT, child) for child in children("retile", PARENT)]
    assert all(len(move) == 2 and move <= {"warps", "rows_per_warp", "block_n"} for move in moves)


def test_restage_changes_depth_or_occupancy_and_nothing_else() -> None:
    moves = [changed(PARENT, child) for child in children("restage", PARENT)]
    assert all(move <= {"k_stages", "v_stages", "waits", "ctas_per_sm"} for move in moves)
    assert set().union(*moves) == {"k_stages", "v_stages", "waits", "ctas_per_sm"}


def test_restage_trades_depth_for_occupancy() -> None:
    for child in children("restage", PARENT):
        values = child.as_dict()
        assert (values["k_stages"] - 2) * (values["ctas_per_sm"] - 2) <= 0


def test_toggle_structure_changes_one_word_and_draws_the_gene_that_it_switches_on() -> None:
    made = children("toggle_structure", PARENT, 300)
    words = {"waits", "layout", "q_home", "rescale", "epilogue"}
    assert all(len(changed(PARENT, child) & words) == 1 for child in made)
    assert {child.as_dict()["lazy_tau"] for child in made if child.as_dict()["rescale"] == "lazy"} == {
        4,
        8,
        12,
    }


def test_crossover_inherits_each_block_whole() -> None:
    rng = np.random.default_rng(2)
    blocks = [*SPACE.blocks, ("epilogue",)]
    for _ in range(40):
        one, two = SPACE.sample(rng), SPACE.sample(rng)
        child = OPERATORS["crossover"].mutate([one, two], SPACE, rng)
        values = [genome.as_dict() for genome in (one, two, child)] if child else []
        for block in blocks if child else ():
            first, second, got = (tuple(v.get(name) for name in block) for v in values)
            assert got in (first, second)


def test_crossover_of_equal_parents_is_refused() -> None:
    assert OPERATORS["crossover"].mutate([PARENT, PARENT], SPACE, np.random.default_rng(0)) is None
