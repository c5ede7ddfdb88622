"""The operators for warpgroups on flash_wgmma's real space: what each changes, and when it is refused."""

import itertools
from functools import cache

import numpy as np
import pytest
from move_cases import TOLD, Move, difference, different, each_move

from evoflash.gene_edits import largest, nearest, one_of, refit, set_back
from evoflash.kernels.family import load_family
from evoflash.problem import parse_problem
from evoflash.space import Check, Genome, Param, SearchSpace, Value
from evoflash.specs import load_gpu
from evoflash.strategies.operators import operators

FAMILY, H200 = load_family("flash_wgmma"), load_gpu("h200")
OPERATORS = {operator.name: operator for operator in operators()}
GENERIC = {"nudge", "reset", "toggle_structure", "crossover", "two_genes"}  # they know no gene by name
GROUPED, WIDE = "b=1,h=8,hkv=2,s=2048,d=64,causal", "b=8,h=16,s=4096,d=128"
ELSEWHERE = {
    "cheaper_mask",
    "go_persistent",
    "l2_hints",
    "reverse_order",
    "skip_max",
    "split_kv",
    "swap_scheduler",
}
NAMED = sorted({move["operator"] for move in TOLD["moves"]} - ELSEWHERE)  # other families have those too


@cache
def hopper(text: str) -> tuple[SearchSpace, tuple[Genome, ...]]:
    """A problem's space on the H200; seeds, meant for its shape or not, a walk from them, and random ones."""
    problem = parse_problem(text)
    space = FAMILY.space(problem.compile_keys(H200.arch), H200)
    seeds, rng = (space.genome(seed.values) for seed in FAMILY.seeds), np.random.default_rng(0)
    walk = list(dict.fromkeys(seed for seed in seeds if space.is_valid(seed)))
    while len(walk) < 80:
        parent = walk[int(rng.integers(len(walk)))]
        walk.append(OPERATORS["reset"].child([parent], space, rng) or parent)
    return space, (*walk, *(space.sample(rng) for _ in range(3)))


def moves(name: str, text: str, has: dict[str, Value]) -> list[Move]:
    """What the bare operator changes in one valid parent, each outcome once; "gone": what the child lacks."""
    space, _ = hopper(text)
    parent = space.genome(has)
    assert space.is_valid(parent), space.violations(parent)
    rng = np.random.default_rng(1)
    made = {OPERATORS[name].mutate([parent], space, rng) for _ in range(100)} - {None}
    return [difference(parent, child) for child in made if space.is_valid(child)]


@pytest.mark.slow
@pytest.mark.parametrize("move", each_move("moves"))
@pytest.mark.sample(10)
def test_a_move_makes_all_that_it_promises_and_nothing_else(move) -> None:
    got = moves(move["operator"], GROUPED, {**TOLD["base"], **move["has"]})
    assert different(got) == different(move["made"]), got


@pytest.mark.slow
@pytest.mark.parametrize("move", each_move("at_the_wall"))
@pytest.mark.sample(4)
@pytest.mark.full
def test_a_move_at_the_wall_makes_the_tile_pay_or_is_refused(move) -> None:
    got = moves(move["operator"], WIDE, {**TOLD["base"], **TOLD["broad"], **move["has"]})
    assert different(got) == different(move["made"]), got


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.sample(1)
def test_a_named_operator_finds_something_to_do_in_both_spaces_or_says_why_not(name: str) -> None:
    for text in (GROUPED, WIDE):
        space, walk = hopper(text)
        rng = np.random.default_rng(3)
        made = [OPERATORS[name].mutate([parent], space, rng) for parent in walk]
        pairs = [(parent, child) for parent, child in zip(walk, made, strict=True) if child]
        # Valid without the repair that a search would try, and never the parent again.
        assert all(child != parent and space.is_valid(child) for parent, child in pairs)
        assert any(made) or (name, text) == ("unpack_gqa", WIDE)  # no heads to unpack there


@pytest.mark.slow
def test_every_value_of_a_structural_gene_is_reached_by_an_operator_that_knows_what_it_does() -> None:
    space, walk = hopper(GROUPED)
    wanted = {(name, value) for name in FAMILY.structural for value in space.param(name).values}
    rng = np.random.default_rng(5)
    named = [operator for name, operator in OPERATORS.items() if name not in GENERIC]
    for operator, parent in itertools.product(named, walk):
        child = operator.mutate([parent], space, rng)
        wanted -= set(difference(parent, child).items()) if child else set()
    assert not wanted


def test_the_other_families_are_left_to_the_operators_that_they_had() -> None:
    problem, gpu = parse_problem("b=1,h=8,s=512,d=64,causal"), load_gpu("l4")
    family = load_family("flash_mma")
    space, rng = family.space(problem.compile_keys(gpu.arch), gpu), np.random.default_rng(0)
    parents = [*family.seeds_for(problem, space, gpu), *(space.sample(rng) for _ in range(8))]
    for name, parent in itertools.product(sorted(set(NAMED) - {"follow_max"}), parents):
        assert OPERATORS[name].mutate([parent], space, rng) is None, name


ROOM = SearchSpace(
    "room",
    (Param("a", (1, 2, 3, 4)), Param("b", (1, 2, 3, 4, 5, 6)), Param("c", (1, 2, 3, 4, 5, 6)),
     Param("on", ("no", "yes"))),
    checks=(Check("sum", lambda v: 2 * v["a"] + v["b"] + v["c"] <= 14),),
    when={"on": lambda v: v["a"] > 1},
)  # fmt: skip
FULL = ROOM.genome({"a": 1, "b": 6, "c": 6})


def test_the_nearest_child_takes_the_fewest_steps_and_the_first_gene_first() -> None:
    for slack, expected in ((("b", "c"), (2, 6)), (("c", "b"), (6, 2)), (("b",), (2, 6))):
        values = nearest(FULL, ROOM, {"a": 3}, slack).as_dict()
        assert (values["a"], values["b"], values["c"]) == (3, *expected)
    both = nearest(FULL, ROOM, {"a": 4}, ("b", "c")).as_dict()
    assert both["b"] + both["c"] == 6


def test_the_nearest_child_needs_no_step_where_none_is_asked_and_there_may_be_none() -> None:
    free = ROOM.genome({"a": 1, "b": 2, "c": 2})
    assert difference(free, nearest(free, ROOM, {"a": 3}, ("b", "c"))) == {"a": 3, "on": "no"}
    assert nearest(FULL, ROOM, {"a": 4}, ("b",)) is None  # one gene alone cannot give so much
    assert nearest(FULL, ROOM, {"elsewhere": 1}, ("b",)) is None
    assert nearest(FULL, ROOM, {"a": 2}, ("elsewhere",)) is None


def test_the_largest_child_fills_what_the_changes_leave() -> None:
    assert difference(FULL, largest(FULL, ROOM, {"a": 2, "c": 5}, "b")) == {
        "a": 2,
        "on": "no",
        "c": 5,
        "b": 5,
    }
    assert largest(FULL, ROOM, {"a": 4, "c": 6}, "b") is None
    assert largest(FULL, ROOM, {"a": 2}, "elsewhere") is None


def test_refit_tries_the_other_options_before_it_gives_up() -> None:
    options = [None, {}, {"a": 4}, {"a": 2}]
    made = {refit(FULL, ROOM, np.random.default_rng(s), options, slack=("b",)) for s in range(20)}
    assert made == {nearest(FULL, ROOM, {"a": 2}, ("b",))}
    assert refit(FULL, ROOM, np.random.default_rng(0), [None, {"a": 4}], slack=("b",)) is None


def test_one_of_several_children_each_in_turn_and_none_of_none() -> None:
    other = ROOM.genome({"a": 1})
    assert {one_of([None, FULL, other], np.random.default_rng(s)) for s in range(20)} == {FULL, other}
    assert one_of([None], np.random.default_rng(0)) is None


def test_set_back_names_only_what_stands_elsewhere() -> None:
    assert set_back(FULL, a=1, b=2, on="yes") == {"b": 2}
