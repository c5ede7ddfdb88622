"""What operators are made of: steps, switches and climbs, and which genes give way when a check breaks."""

import numpy as np
from strategy_cases import SPACE

from evoflash.gene_edits import apply_changes, attempt, climb, draw_new_genes, shift, step, switch
from evoflash.space import Check, Param, SearchSpace

ROOM = SearchSpace(
    "room",
    (Param("a", (1, 2, 3, 4)), Param("b", (1, 2, 3, 4)), Param("c", (1, 2, 3, 4)), Param("on", (False, True)),
     Param("extra", ("x", "y"))),
    checks=(Check("sum", lambda v: v["a"] + v["b"] + v["c"] <= 7),),
    when={"extra": lambda v: v["b"] >= 2},
)  # fmt: skip
PARENT = ROOM.genome({"a": 1, "b": 3, "c": 3, "on": False, "extra": "x"})


def test_a_step_ends_at_the_ends_of_the_domain_and_where_the_gene_is_absent() -> None:
    assert [step(PARENT, ROOM, "b", way) for way in (-3, -2, 1, 2)] == [None, 1, 4, None]
    assert step(PARENT, ROOM, "elsewhere", 1) is None
    assert step(ROOM.genome({"b": 1}), ROOM, "extra", 1) is None


def test_a_shift_moves_all_its_genes_or_none() -> None:
    assert shift(PARENT, ROOM, a=2, b=-1) == {"a": 3, "b": 2}
    assert shift(PARENT, ROOM, a=2, b=2) is None


def test_a_switch_offers_the_named_words_that_are_new() -> None:
    assert switch(PARENT, ROOM, "extra") == [{"extra": "y"}]
    assert switch(PARENT, ROOM, "extra", "x", "z") == []
    assert switch(PARENT, ROOM, "on", True) == [{"on": True}]
    assert switch(PARENT, ROOM, "a", True) == []  # True equals 1, and is no number


def test_what_a_change_brings_into_play_is_drawn_and_nothing_else() -> None:
    bare = ROOM.genome({"a": 1, "b": 1, "c": 3, "on": False})
    rng = np.random.default_rng(0)
    made = [draw_new_genes(bare, ROOM, rng, {"b": 2}) for _ in range(40)]
    assert {tuple(change.items()) for change in made} == {(("b", 2), ("extra", x)) for x in "xy"}
    assert draw_new_genes(bare, ROOM, rng, {"b": 2, "extra": "y"}) == {"b": 2, "extra": "y"}
    unused = np.random.default_rng(7)
    assert draw_new_genes(PARENT, ROOM, unused, {"a": 2, "b": 1}) == {"a": 2, "b": 1}
    assert unused.random() == np.random.default_rng(7).random()


def test_a_climb_goes_up_its_order_only() -> None:
    parent = SPACE.genome({"layout": "xor64"})
    assert climb(parent, SPACE, "layout", "pad8", "xor64", "xor128") == [{"layout": "xor128"}]
    assert climb(parent, SPACE, "layout", "xor128", "xor64") == []
    assert climb(parent, SPACE, "layout", "pad8", "xor128") == []
    assert climb(parent, SPACE, "elsewhere", "pad8", "xor128") == []


def test_the_gene_named_first_gives_way_and_no_further_than_it_must() -> None:
    for slack, expected in (([("b", -1), ("c", -1)], (2, 3)), ([("c", -1), ("b", -1)], (3, 2))):
        values = apply_changes(PARENT, ROOM, {"a": 2}, slack=slack).as_dict()
        assert (values["a"], values["b"], values["c"]) == (2, *expected)


def test_two_genes_give_way_together_when_one_is_not_enough() -> None:
    tight = ROOM.genome({"a": 1, "b": 2, "c": 4})
    values = apply_changes(tight, ROOM, {"a": 3}, slack=[("b", -1), ("c", -1)]).as_dict()
    assert (values["a"], values["b"] + values["c"]) == (3, 4)


def test_no_child_when_nothing_gives_way_far_enough_or_the_move_itself_would() -> None:
    assert apply_changes(PARENT, ROOM, {"a": 4}) is None
    assert apply_changes(PARENT, ROOM, {"a": 4}, slack=[("a", -1)]) is None
    assert apply_changes(PARENT, ROOM, {"a": 4}, slack=[("on", -1)]) is None


def test_no_child_for_an_unknown_gene_a_foreign_value_or_no_change() -> None:
    for changes in ({"elsewhere": 1}, {"a": 9}, {"a": 1}, {"on": 0}):
        assert apply_changes(PARENT, ROOM, changes) is None


def test_a_change_of_an_inactive_gene_is_no_child_and_giving_way_never_undoes_the_move() -> None:
    assert apply_changes(ROOM.genome({"b": 1}), ROOM, {"extra": "y"}) is None
    full = ROOM.genome({"a": 1, "b": 2, "c": 4, "extra": "x"})
    child = apply_changes(full, ROOM, {"extra": "y", "a": 2}, slack=[("b", -1), ("c", -1)])
    assert child.as_dict()["extra"] == "y"
    assert child.as_dict()["c"] == 3


def test_an_attempt_tries_the_other_options_before_it_gives_up() -> None:
    options = [None, {"a": 4}, {"c": 4}, {"c": 1}]
    made = {attempt(PARENT, ROOM, np.random.default_rng(seed), options) for seed in range(20)}
    assert made == {ROOM.genome({**PARENT.as_dict(), "c": 1})}
    assert attempt(PARENT, ROOM, np.random.default_rng(0), [None, {"a": 4}]) is None
