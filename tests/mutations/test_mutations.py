"""Every operator found in mutations/ keeps the same promises; then what each one is for."""

import itertools
import sys
from functools import cache

import numpy as np
import pytest
from move_cases import difference, different, each_move
from strategy_cases import SPACE, TINY
from tables import data, table_of_cases

import evoflash.mutations
from evoflash.errors import UsageError
from evoflash.gene_edits import HIGH, LOW, MID, VERY_HIGH
from evoflash.kernels.family import known_families, load_family
from evoflash.problem import parse_problem
from evoflash.space import Check, Genome, Param, SearchSpace
from evoflash.specs import load_gpu
from evoflash.strategies.operators import Operator, operators

OPERATORS = {operator.name: operator for operator in operators()}
FIXED = SearchSpace("fixed", (Param("a", (1,)), Param("b", ("x",))))
NUMBERS = SearchSpace("numbers", (Param("x", tuple(range(9))), Param("y", (1, 2, 4, 8))))
every_operator = pytest.mark.parametrize("operator", OPERATORS.values(), ids=list(OPERATORS))


def parents_of(operator: Operator, space: SearchSpace, rng: np.random.Generator) -> list[Genome]:
    return [space.sample(rng) for _ in range(operator.arity)]


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
@pytest.mark.sample(100)
def test_a_child_is_valid_and_none_of_its_parents(operator: Operator, space: SearchSpace) -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        parents = parents_of(operator, space, rng)
        child = operator.child(parents, space, rng)
        assert child is None or (space.is_valid(child) and space.genome(child.as_dict()) == child)
        assert child not in parents


PROBLEMS = {
    "attention": "b=1,h=8,hkv=2,s=512,d=64,causal",
    "linear": "linear:8b_o,m=4,dtype=fp8b128",
    "paged_attention": "serving_llama8b_b8_4k",
}


@cache
def kernels(family: str) -> tuple[SearchSpace, tuple[Genome, ...]]:
    """A family's space for a problem on a GPU that runs it, and a walk of mutants from its seeds."""
    loaded, rng = load_family(family), np.random.default_rng(0)
    gpu = load_gpu("h200" if loaded.arch == ("sm_90a",) else "l4")
    problem = parse_problem(PROBLEMS[loaded.op])
    space = loaded.space(problem.compile_keys(gpu.arch), gpu)
    walk = list(loaded.seeds_for(problem, space, gpu))
    while len(walk) < 120:
        parent = walk[int(rng.integers(len(walk)))]
        walk.append(OPERATORS["reset"].child([parent], space, rng) or parent)
    return space, tuple(walk)


@pytest.mark.parametrize("family", known_families())
@every_operator
@pytest.mark.sample(100)
def test_a_child_is_a_valid_kernel_of_the_family(operator: Operator, family: str) -> None:
    space, walk = kernels(family)
    rng = np.random.default_rng(3)
    for parents in zip(walk[:12], walk[12:24], strict=True):
        child = operator.child(parents[: operator.arity], space, rng)
        assert child is None or (space.is_valid(child) and child not in parents[: operator.arity])


@every_operator
@pytest.mark.sample(6)
def test_an_operator_finds_something_to_do_in_a_shipped_family(operator: Operator) -> None:
    made = 0
    for space, walk in map(kernels, known_families()):
        rng = np.random.default_rng(3)
        for parents in itertools.pairwise(walk):
            made += operator.child(parents[: operator.arity], space, rng) is not None
    assert made > 0


def test_the_operators_have_names_of_their_own_and_are_many() -> None:
    assert len(OPERATORS) >= 20


def test_rows_of_w_are_traded_for_shares_of_k() -> None:
    """One gene doubles, one halves; k_splits may bring genes of its own along."""
    gpu, problem = load_gpu("h200"), parse_problem(PROBLEMS["linear"])
    family = load_family("linear_mma")
    space = family.space(problem.compile_keys(gpu.arch), gpu)
    (parent,) = (space.genome(seed.values) for seed in family.seeds if seed.name == "held_pairs")
    own = parent.as_dict()
    made = {
        tuple((name, child.as_dict()[name]) for name in ("row_tiles", "row_warps", "k_warps", "k_splits"))
        for child in children("trade_rows_for_k", parent, 200, space)
    }

    factors = [sorted(value / own[name] for name, value in each) for each in made]
    assert len(made) >= 6
    assert all(each == [0.5, 1, 1, 2] for each in factors)


@every_operator
def test_an_operator_has_nothing_to_do_on_a_space_without_a_choice(operator: Operator) -> None:
    only = next(iter(FIXED))
    assert operator.mutate([only] * operator.arity, FIXED, np.random.default_rng(0)) is None


@every_operator
def test_the_same_random_stream_gives_the_same_child(operator: Operator) -> None:
    parents = parents_of(operator, SPACE, np.random.default_rng(5))
    twice = [operator.child(parents, SPACE, np.random.default_rng(9)) for _ in range(2)]
    assert twice[0] == twice[1]


BOUNDS = {"tensor", "exp", "issue", "shared", "l2", "dram", "launch", "latency", "spills"}


@every_operator
def test_an_operator_says_what_it_needs_what_it_is_against_and_what_to_expect(operator: Operator) -> None:
    text = sys.modules[operator.mutate.__module__].__doc__
    assert all(word in text for word in ("Needs:", "Against", "Expected:"))


@every_operator
def test_an_operator_states_its_prior_and_known_bottlenecks(operator: Operator) -> None:
    module = sys.modules[operator.mutate.__module__]
    assert module.PRIOR in (LOW, MID, HIGH, VERY_HIGH)
    assert set(module.BOTTLENECKS) <= BOUNDS
    assert (operator.trait.prior, operator.trait.bottlenecks) == (module.PRIOR, module.BOTTLENECKS)


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
    with pytest.raises(UsageError, match=r"/half_done\.py is no operator: give it PARENTS"):
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


SMALL = {"block_n": 32, "ctas_per_sm": 2}  # room for one more CTA


@pytest.mark.parametrize("move", each_move("of_tiles"))
def test_a_named_move_changes_what_its_name_says_and_what_that_costs(move) -> None:
    parent = SPACE.genome({**PARENT.as_dict(), **move["has"]})
    made = [difference(parent, child) for child in children(move["operator"], parent)]
    assert different(made) == different(move["made"])


SIMT_MOVES = list(data(__file__, "SIMT_MOVES", tuples=True))


@pytest.mark.parametrize(("name", "has", "gets"), SIMT_MOVES, ids=[move[0] for move in SIMT_MOVES])
def test_the_steps_from_the_naive_kernel_are_single_moves(name, has, gets) -> None:
    space, _ = kernels("flash_simt")
    base = {"warps": 4, "lanes_per_row": 8, "vec": 2, "q_home": "registers", "kv_home": "global", "batch": 4}
    parent = space.genome({**base, **has})
    assert space.is_valid(parent), space.violations(parent)
    made = children(name, parent, space=space)
    assert made
    for child in made:
        (gene,) = has.keys() - {"lanes_per_row"}
        assert child.as_dict()[gene] in gets.values()


def test_a_move_that_breaks_a_check_makes_another_gene_give_way() -> None:
    full = SPACE.genome({**PARENT.as_dict(), "block_n": 96, "k_stages": 2, "v_stages": 1, "ctas_per_sm": 2})
    assert SPACE.violations(SPACE.genome({**full.as_dict(), "k_stages": 3}))
    deeper = [child.as_dict() for child in children("deepen_pipeline", full) if SPACE.is_valid(child)]
    assert deeper
    for values in deeper:
        assert values["k_stages"] + values["v_stages"] > 3
        assert values["ctas_per_sm"] < 2 or values["block_n"] < 96


def test_retile_trades_one_step_of_the_tile_for_another() -> None:
    for child in children("retile", PARENT):
        moved = difference(PARENT, child).keys() & {"warps", "rows_per_warp", "block_n"}
        before, after = PARENT.as_dict(), child.as_dict()
        assert sorted(after[name] > before[name] for name in moved) == [False, True]


@table_of_cases()
def test_warps_go_from_rows_to_keys_and_back(has, may) -> None:
    space, _ = kernels("flash_direct")
    parent = space.genome({"rows_per_warp": 16, "ctas_per_sm": 1, **has})
    made = [difference(parent, child) for child in children("split_kv_warps", parent, space=space)]
    assert different(made) == different(may)


@pytest.mark.parametrize("move", each_move("of_exchanging_blocks"))
def test_blocks_that_exchange_p_have_their_moves(move) -> None:
    space, _ = kernels("flash_cluster")
    base = {"cluster": 2, "consumers": 1, "block_n": 64, "tile_parts": 2, "ctas_per_sm": 1}
    parent = space.genome({**base, **move["has"]})
    assert space.is_valid(parent), space.violations(parent)
    made = [difference(parent, child) for child in children(move["operator"], parent, 100, space)]
    assert different(made) == different(move["made"])


def test_retile_trades_keys_of_a_warp_for_warps() -> None:
    space, _ = kernels("flash_direct")
    parent = space.genome(
        {"row_warps": 1, "key_warps": 2, "rows_per_warp": 16, "block_n": 32, "ctas_per_sm": 1}
    )
    made = [child.as_dict() for child in children("retile", parent, space=space)]
    assert (4, 16) in {(values["key_warps"], values["block_n"]) for values in made}


def test_toggle_structure_changes_one_word_and_draws_the_gene_that_it_switches_on() -> None:
    made = children("toggle_structure", PARENT, 300)
    words = {"waits", "layout", "q_home", "rescale", "epilogue"}
    assert all(len(difference(PARENT, child).keys() & words) == 1 for child in made)
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
